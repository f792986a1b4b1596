"""How a matcher reads tokens without holding up the other threads of the process.

llguidance keeps Python's lock while it reads one token, which takes seconds in some grammars. It gives the lock back
only when it reads tokens of several matchers together, so a second one comes along that fails at once.
"""

import threading
import time

import llguidance

from segue.engine.constraints.threads.fair_queue import Lexer

# Of the processor, for a part of a text: the next one may take a hundred times as long.
_DEAR_S = 0.005

_own = threading.local()  # an executor each: it has one thread, for which others would wait


def read_beside(
    matcher: llguidance.LLMatcher, token: int, tokenizer: llguidance.LLTokenizer
) -> None:
    if not hasattr(_own, "executor"):
        _own.executor = llguidance.LLExecutor(1)
        _own.failed = llguidance.LLMatcher(tokenizer, "", log_level=0)  # no grammar: reads nothing
    _own.executor.consume_token_par([(matcher, token), (_own.failed, token)])


def read_as_far(
    matcher: llguidance.LLMatcher,
    tokens: list[int],
    lexer: Lexer,
    tokenizer: llguidance.LLTokenizer,
) -> int:
    """How many it has read: all, or those before the first that cannot come.

    Each part is as long as all before it while that is quick. Then the lexer counts as slow: tokens are read beside.
    """
    place = 0
    while place < len(tokens):
        if lexer.is_slow:
            size = 1
            read_beside(matcher, tokens[place], tokenizer)
            num_read = int(not matcher.is_error())
        else:
            part = tokens[place : 2 * place + 1]
            size = len(part)
            began_s = time.thread_time()
            num_read = int(matcher.try_consume_tokens(part))
            lexer.is_slow |= time.thread_time() - began_s > _DEAR_S
        place += num_read
        if num_read < size:
            break
    return place
