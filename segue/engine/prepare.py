"""From a request to a job the scheduler can run: tokenize, then check against the model that is loaded."""

import secrets

from segue.engine.constraint import Grammar
from segue.engine.job import Job
from segue.engine.seam import Capabilities, Vocab
from segue.engine.token_rules import token_rules
from segue.errors import InvalidField, PromptTooLong
from segue.types import CompletionRequest, Prompt


def prepare(
    request: CompletionRequest,
    vocab: Vocab,
    capabilities: Capabilities,
    grammar: Grammar | None = None,
) -> Job:
    """`grammar` is the request's constraint, compiled."""
    whole = [_tokens(prompt, vocab) for prompt in request.prompts]
    prompts = [_truncated(request, tokens, capabilities.context_length) for tokens in whole]
    for index, tokens in enumerate(prompts):
        _check_length(request, index, len(tokens), capabilities.context_length)
    rules = token_rules(request.sampling, vocab, capabilities.vocab_size)
    seed = request.sampling.seed
    if seed is None:
        seed = secrets.randbits(63)
    num_dropped = [len(old) - len(new) for old, new in zip(whole, prompts, strict=True)]
    return Job(request, prompts, seed, vocab, capabilities, rules, num_dropped, grammar)


def _tokens(prompt: Prompt, vocab: Vocab) -> list[int]:
    tokens: list[int] = []
    for position, part in enumerate(prompt.parts):
        if isinstance(part, str):
            add_special = prompt.add_special and position == 0
            tokens += vocab.tokenize(part, add_special, prompt.parse_special)
        else:
            for token in part:
                if not 0 <= token < vocab.size:
                    raise InvalidField(
                        f"prompt holds token id {token}, but the model's ids are 0 to "
                        f"{vocab.size - 1}",
                        "prompt",
                    )
            tokens += part
    return tokens


def _truncated(request: CompletionRequest, tokens: list[int], context: int) -> list[int]:
    how = request.truncation
    if how is None:
        return tokens
    wanted = 1 if request.max_tokens is None else request.max_tokens
    # An answer that was promised the whole context gets half of it: the prompt needs some too.
    room = context - min(wanted, context // 2)
    limit = room if how.max_tokens is None else min(how.max_tokens, room)
    if len(tokens) <= limit:
        return tokens
    if how.side == "end":
        return tokens[:limit]
    kept = min(how.num_kept, limit)
    return tokens[:kept] + tokens[len(tokens) - (limit - kept) :]


def _check_length(request: CompletionRequest, index: int, length: int, context: int) -> None:
    which = f"prompt {index}" if len(request.prompts) > 1 else "the prompt"
    if not length:
        raise InvalidField(f"{which} is empty: it must hold at least one token", "prompt")
    limit = context if request.max_tokens == 0 else context - 1
    if length > limit:
        raise PromptTooLong(
            f"{which} has {length} tokens, but the model's context holds {context}"
            + ("" if request.max_tokens == 0 else ", at least one of them for the answer"),
            "prompt",
            details={"n_prompt_tokens": length, "n_ctx": context},
        )
