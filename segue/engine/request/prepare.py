"""From a request to a job the scheduler can run: tokenize, then check against the model that is loaded."""

import secrets
from dataclasses import replace

from segue.bounds import MAX_TRUNCATED
from segue.engine.constraints.compiler import Grammar
from segue.engine.infill.layouts import Laid, end_tokens, lay_out, lay_out_plain
from segue.engine.infill.middles import SCORED_SUFFIX, read_suffix
from segue.engine.request.answer_size import check_prompt_scores
from segue.engine.request.healing import heal
from segue.engine.request.job import InfillPrompts, Job
from segue.engine.request.ranked_job import RankedJob
from segue.engine.sampling.token_rules import token_rules
from segue.engine.seam import Capabilities, Vocab
from segue.engine.tokens import check_ids, fewest_tokens, prompt_tokens
from segue.errors import InvalidField, PromptTooLong, Unsupported
from segue.types import CompletionRequest, Infill

_ROOM_FOR_ANSWER = 256  # tokens that an infill prompt leaves free if max_tokens is not given


def prepare(
    request: CompletionRequest,
    vocab: Vocab,
    capabilities: Capabilities,
    grammar: Grammar | None = None,
) -> Job:
    """The request as a job. `grammar`: its compiled constraint. Raises RequestError."""
    if request.infill is not None:
        return _infill(request, request.infill, vocab, capabilities, grammar)
    for index, prompt in enumerate(
        request.prompts
    ):  # a prompt that cannot fit is refused before it is tokenized
        fewest = max(1, fewest_tokens(prompt, vocab))
        if request.truncation is None or fewest > MAX_TRUNCATED * capabilities.context_length:
            _check_length(request, index, fewest, capabilities.context_length)
    whole = [prompt_tokens(prompt, vocab) for prompt in request.prompts]
    prompts = [_truncated(request, tokens, capabilities.context_length) for tokens in whole]
    for index, tokens in enumerate(prompts):
        _check_length(request, index, len(tokens), capabilities.context_length)
    check_prompt_scores(request, prompts)
    rules = token_rules(request.sampling, vocab, capabilities.vocab_size)
    num_dropped = [len(old) - len(new) for old, new in zip(whole, prompts, strict=True)]
    seed = _seed(request)
    return Job(request, prompts, seed, vocab, capabilities, rules, num_dropped, grammar)


def _infill(
    request: CompletionRequest,
    infill: Infill,
    vocab: Vocab,
    capabilities: Capabilities,
    grammar: Grammar | None,
) -> Job:
    method = infill.way(vocab.fim is not None)
    if method == "fim":
        return _fim(request, infill, vocab, capabilities, grammar)
    if infill.order != "auto":
        raise InvalidField(
            "infill_order must be left out: this model has no tokens for filling in the middle, so that "
            "nothing has an order",
            "infill_order",
        )
    if method == "ranked" and request.max_tokens != 0:
        return _ranked(request, infill, vocab, capabilities, grammar)
    return _continued(request, infill, vocab, capabilities, grammar)


def _continued(
    request: CompletionRequest,
    infill: Infill,
    vocab: Vocab,
    capabilities: Capabilities,
    grammar: Grammar | None,
) -> Job:
    """A job without infill: the suffix is empty or max_tokens is 0, so the prompt is used as it is."""
    laid = _laid_plain(request, infill, vocab, capabilities, _room(request, capabilities))
    filling = InfillPrompts(None, [each.text for each in laid], [each.split for each in laid])
    rules = token_rules(request.sampling, vocab, capabilities.vocab_size)
    num_dropped = [each.split.num_dropped for each in laid]
    prompts = [each.tokens for each in laid]
    check_prompt_scores(request, prompts)
    seed = _seed(request)
    return Job(request, prompts, seed, vocab, capabilities, rules, num_dropped, grammar, filling)


def _laid_plain(
    request: CompletionRequest, infill: Infill, vocab: Vocab, capabilities: Capabilities, room: int
) -> list[Laid]:
    if infill.snippets or infill.repo or infill.filename:
        _check_echo(request)
    laid = [lay_out_plain(prompt, infill, vocab, room) for prompt in request.prompts]
    for index, each in enumerate(laid):
        _check_length(request, index, len(each.tokens), capabilities.context_length)
    return laid


def _fim(
    request: CompletionRequest,
    infill: Infill,
    vocab: Vocab,
    capabilities: Capabilities,
    grammar: Grammar | None,
) -> Job:
    fim = vocab.fim
    if fim is None:
        raise Unsupported(
            "this model has no tokens for filling in the middle, and the request (infill_mode) or the "
            "server (--infill fim-only) wants it to be done by those only",
            "suffix",
        )
    _check_echo(request)
    room = _room(request, capabilities)
    laid = [lay_out(prompt, infill, vocab, fim, room) for prompt in request.prompts]
    filling = InfillPrompts("fim", [each.text for each in laid], [each.split for each in laid])
    num_dropped = [each.split.num_dropped for each in laid]
    rules = token_rules(request.sampling, vocab, capabilities.vocab_size)
    rules = replace(rules, ends=rules.ends | end_tokens(vocab, fim))
    prompts = [each.tokens for each in laid]
    check_prompt_scores(request, prompts)
    seed = _seed(request)
    return Job(request, prompts, seed, vocab, capabilities, rules, num_dropped, grammar, filling)


def _ranked(
    request: CompletionRequest,
    infill: Infill,
    vocab: Vocab,
    capabilities: Capabilities,
    grammar: Grammar | None,
) -> Job:
    if request.post_sampling_probs:
        raise InvalidField(
            "post_sampling_probs cannot be combined with suffix on a model without tokens for filling "
            "in the middle: middles are ranked by the model's own probabilities",
            "post_sampling_probs",
        )
    room = _room(request, capabilities) - SCORED_SUFFIX
    laid = _laid_plain(request, infill, vocab, capabilities, room)
    filling = InfillPrompts("ranked", [each.text for each in laid], [each.split for each in laid])
    num_dropped = [each.split.num_dropped for each in laid]
    suffix = read_suffix(infill.suffix, vocab)
    check_ids(suffix.tokens, vocab.size, "suffix")
    healed = [
        heal(request, prompt, each.tokens, vocab)
        for prompt, each in zip(request.prompts, laid, strict=True)
    ]
    prompts = [
        each.tokens if taken is None else each.tokens[:-1]
        for each, taken in zip(laid, healed, strict=True)
    ]
    check_prompt_scores(request, prompts)
    rules = token_rules(request.sampling, vocab, capabilities.vocab_size)
    return RankedJob(
        request,
        prompts,
        _seed(request),
        vocab,
        capabilities,
        rules,
        num_dropped,
        grammar,
        filling,
        suffix,
        healed,
    )


def _check_echo(request: CompletionRequest) -> None:
    if request.echo and request.prompt_logprobs is not None:
        raise InvalidField(
            "echo cannot have log-probabilities here: the tokens that were read are not those of the "
            "prompt alone, but also of the suffix or of other files",
            "echo",
        )


def _room(request: CompletionRequest, capabilities: Capabilities) -> int:
    """Tokens left for the prompt beside the answer; the answer gets half of the context at the most."""
    context = capabilities.context_length
    wanted = _ROOM_FOR_ANSWER if request.max_tokens is None else request.max_tokens
    return context - max(1, min(wanted, context // 2))


def _seed(request: CompletionRequest) -> int:
    seed = request.sampling.seed
    return secrets.randbits(63) if seed is None else seed


def _truncated(request: CompletionRequest, tokens: list[int], context: int) -> list[int]:
    how = request.truncation
    if how is None:
        return tokens
    wanted = 1 if request.max_tokens is None else request.max_tokens
    # If max_tokens asks for the whole context, the answer gets half of it and the prompt the rest.
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
            details={
                "n_prompt_tokens": length,
                "n_ctx": context,
                "n_answer": 1 if request.max_tokens is None else request.max_tokens,
                **({"prompt": index} if len(request.prompts) > 1 else {}),
            },
        )
