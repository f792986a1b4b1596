"""How a matcher reads a token without holding up the other threads of the process.

llguidance keeps Python's lock while it reads one token, which takes seconds in some grammars. It gives the lock back
only when it reads tokens of several matchers together, so a second one comes along that fails at once.
"""

import threading

import llguidance

_own = threading.local()  # an executor each: it has one thread, for which others would wait


def read_beside(
    matcher: llguidance.LLMatcher, token: int, tokenizer: llguidance.LLTokenizer
) -> None:
    if not hasattr(_own, "executor"):
        _own.executor = llguidance.LLExecutor(1)
    failed = llguidance.LLMatcher(tokenizer, "", log_level=0)  # no grammar: it reads nothing
    _own.executor.consume_token_par([(matcher, token), (failed, token)])
