"""From a request to a job the scheduler can run: tokenize, then check against the model that is loaded."""

import secrets

from segue.engine.job import Job
from segue.engine.seam import Capabilities, Vocab
from segue.engine.token_rules import token_rules
from segue.errors import InvalidField, PromptTooLong
from segue.types import CompletionRequest, Prompt


def prepare(request: CompletionRequest, vocab: Vocab, capabilities: Capabilities) -> Job:
    prompts = [_tokens(prompt, vocab) for prompt in request.prompts]
    for index, tokens in enumerate(prompts):
        _check_length(request, index, len(tokens), capabilities.context_length)
    rules = token_rules(request.sampling, vocab, capabilities.vocab_size)
    seed = request.sampling.seed
    if seed is None:
        seed = secrets.randbits(63)
    return Job(request, prompts, seed, vocab, capabilities, rules)


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
        )
