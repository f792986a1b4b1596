"""From a request to a job the scheduler can run: tokenize, then check against the model that is loaded."""

import secrets
from typing import NamedTuple

from segue.bounds import DRAWN_SEEDS, MAX_TRUNCATED
from segue.engine.constraints.compiler import Grammar
from segue.engine.infill.layouts import FimPrompt, end_tokens, lay_out, lay_out_plain
from segue.engine.infill.middles import SCORED_SUFFIX, read_suffix
from segue.engine.request.answer_size import check_prompt_scores, check_repeated
from segue.engine.request.beam_job import BeamJob, check_beams
from segue.engine.request.healing import heal
from segue.engine.request.job import InfillPrompts, Job, PreparedRequest
from segue.engine.request.ranked_job import RankedJob
from segue.engine.sampling.token_rules import token_rules
from segue.engine.seam import Mix, Model
from segue.engine.tokens import check_ids, fewest_tokens, has_added_bos, prompt_tokens
from segue.errors import InvalidField, PromptTooLong, Unsupported
from segue.types import CompletionRequest, Infill, InfillMethod

_ROOM_FOR_ANSWER = 256  # tokens that a prompt leaves free if it is cut and the answer has no bound


class _Prompts(NamedTuple):
    """The prompts of a request as tokens; lists have one entry per prompt."""

    tokens: list[list[int]]
    num_dropped: list[int]
    infill: InfillPrompts | None = None


def prepare(request: CompletionRequest, model: Model, grammar: Grammar | None = None) -> Job:
    """The request as a job. `grammar`: its compiled constraint. Raises RequestError."""
    if request.priority and not model.capabilities.has_priorities:
        raise InvalidField(
            "priority must be 0: who comes first is served first here (a server that was started with "
            "--scheduling-policy priority knows priorities)",
            "priority",
        )
    if request.beam_search:
        check_beams(request)
    num_known = min(model.vocab.size, model.capabilities.vocab_size)
    check_ids(request.logprob_token_ids, num_known, "logprob_token_ids")
    infill, fim = request.infill, model.vocab.fim
    method = None if infill is None else infill.method(fim is not None)
    if infill is None:
        prompts = _read(request, model)
    elif method == "fim":
        prompts = _read_fim(request, infill, model)
    elif infill.order != "auto":
        raise InvalidField(
            "infill_order must be left out: this model has no tokens for filling in the middle, so that "
            "nothing has an order",
            "infill_order",
        )
    elif method == "ranked" and request.max_tokens != 0:
        return _ranked(request, infill, model, grammar)
    else:  # nothing is filled in, so the prompt is used as it is
        prompts = _read_plain(request, infill, model, None, _room(request, model))
    more_ends: frozenset[int] = frozenset()
    if method == "fim" and fim is not None:
        more_ends = end_tokens(model.vocab, fim)
    prepared = _checked(request, prompts, model, grammar, more_ends)
    return (BeamJob if request.beam_search else Job)(prepared, model)


def _ranked(
    request: CompletionRequest, infill: Infill, model: Model, grammar: Grammar | None
) -> Job:
    for field in ("post_sampling_probs", "logprob_token_ids"):
        if getattr(request, field):
            raise InvalidField(
                f"{field} cannot be combined with suffix on a model without tokens for filling in the middle: "
                "middles are ranked by the model's own probabilities of their tokens",
                field,
            )
    room = _room(request, model) - SCORED_SUFFIX
    prompts = _read_plain(request, infill, model, "ranked", room)
    suffix = read_suffix(infill.suffix, model.vocab)
    check_ids(suffix.tokens, model.vocab.size, "suffix")
    healed = [
        heal(request, prompt, tokens, model.vocab)
        for prompt, tokens in zip(request.prompts, prompts.tokens, strict=True)
    ]
    left = [
        tokens if taken is None else tokens[:-1]
        for tokens, taken in zip(prompts.tokens, healed, strict=True)
    ]
    prepared = _checked(request, prompts._replace(tokens=left), model, grammar)
    return RankedJob(prepared, model, suffix, healed)


def _checked(
    request: CompletionRequest,
    prompts: _Prompts,
    model: Model,
    grammar: Grammar | None,
    more_ends: frozenset[int] = frozenset(),
) -> PreparedRequest:
    check_prompt_scores(request, prompts.tokens)
    check_repeated(request, prompts.tokens, prompts.infill.texts if prompts.infill else ())
    seed = request.sampling.seed
    return PreparedRequest(
        request=request,
        prompts=prompts.tokens,
        num_dropped=prompts.num_dropped,
        infill=prompts.infill,
        rules=token_rules(
            request.sampling,
            model.vocab,
            model.capabilities.vocab_size,
            request.constraint is not None,
            more_ends,
        ),
        seed=secrets.randbelow(DRAWN_SEEDS) if seed is None else seed,
        grammar=grammar,
        adapters=_mix(request, model),
    )


def _mix(request: CompletionRequest, model: Model) -> Mix:
    """The request's adapters as the runner knows them, in the runner's order."""
    places = {name: place for place, name in enumerate(model.capabilities.adapters)}
    for adapter in request.adapters or ():
        if adapter.name not in places:
            raise InvalidField(f"this model has no adapter {adapter.name!r}", "lora")
    wanted = {places[str(each.name)]: each.scale for each in request.adapters or ()}
    return tuple(
        (place, 1.0 if scale is None else scale) for place, scale in sorted(wanted.items())
    )


# --- prompts as tokens ----------------------------------------------------------------------------


def _read(request: CompletionRequest, model: Model) -> _Prompts:
    """The prompts of a request without infill."""
    context = model.capabilities.context_length
    for index, prompt in enumerate(request.prompts):
        # A prompt that cannot fit is refused before it is tokenized.
        fewest = max(1, fewest_tokens(prompt, model.vocab))
        if request.truncation is None or fewest > MAX_TRUNCATED * context:
            _check_length(request, index, fewest, context, is_counted=False)
    whole = [prompt_tokens(prompt, model.vocab) for prompt in request.prompts]
    prompts = [
        _truncated(request, tokens, context, has_added_bos(prompt, tokens, model.vocab))
        for prompt, tokens in zip(request.prompts, whole, strict=True)
    ]
    for index, tokens in enumerate(prompts):
        _check_length(request, index, len(tokens), context)
    return _Prompts(prompts, [len(old) - len(new) for old, new in zip(whole, prompts, strict=True)])


def _read_plain(
    request: CompletionRequest,
    infill: Infill,
    model: Model,
    method: InfillMethod | None,
    room: int,
) -> _Prompts:
    """The prompts of an infill request, laid out without FIM tokens and without the suffix."""
    if infill.snippets or infill.repo or infill.filename:
        _check_echo(request)
    laid = lay_out_plain(request.prompts, infill, model.vocab, room)
    for index, each in enumerate(laid):
        _check_length(request, index, len(each.tokens), model.capabilities.context_length)
    return _laid_out(laid, method)


def _read_fim(request: CompletionRequest, infill: Infill, model: Model) -> _Prompts:
    """The prompts of an infill request, laid out with the model's FIM tokens."""
    fim = model.vocab.fim
    if fim is None:
        raise Unsupported(
            "this model has no tokens for filling in the middle, and the request (infill_mode) or the "
            "server (--infill fim-only) wants it to be done by those only",
            "suffix",
        )
    _check_echo(request)
    room = _room(request, model)
    laid = lay_out(request.prompts, infill, model.vocab, fim, room)
    return _laid_out(laid, "fim")


def _laid_out(laid: list[FimPrompt], method: InfillMethod | None) -> _Prompts:
    return _Prompts(
        [each.tokens for each in laid],
        [each.split.num_dropped for each in laid],
        InfillPrompts(method, [each.text for each in laid], [each.split for each in laid]),
    )


def _check_echo(request: CompletionRequest) -> None:
    if request.echo and request.prompt_logprobs is not None:
        raise InvalidField(
            "echo cannot have log-probabilities here: the tokens that were read are not those of the "
            "prompt alone, but also of the suffix or of other files",
            "echo",
        )


def _room(request: CompletionRequest, model: Model) -> int:
    """Tokens left for the prompt beside the answer; the answer gets half of the context at the most."""
    context = model.capabilities.context_length
    wanted = _ROOM_FOR_ANSWER if request.max_tokens is None else request.max_tokens
    return context - max(1, min(wanted, context // 2))


def _truncated(
    request: CompletionRequest, tokens: list[int], context: int, has_bos: bool
) -> list[int]:
    how = request.truncation
    if how is None:
        return tokens
    wanted = request.max_tokens
    if wanted is None:  # a prompt that fits is not cut, though its answer may be short
        wanted = 1 if len(tokens) < context else _ROOM_FOR_ANSWER
    # If max_tokens asks for the whole context, the answer gets half of it and the prompt the rest.
    room = context - min(wanted, context // 2)
    limit = room if how.max_tokens is None else min(how.max_tokens, room)
    if len(tokens) <= limit:
        return tokens
    if how.side == "end":
        return tokens[:limit]
    kept = min(max(how.num_kept, int(has_bos and how.keeps_bos)), limit)
    return tokens[:kept] + tokens[len(tokens) - (limit - kept) :]


def _check_length(
    request: CompletionRequest, index: int, length: int, context: int, is_counted: bool = True
) -> None:
    """Raise if so many tokens do not fit. If they were not counted, there are at least so many."""
    which = f"prompt {index}" if len(request.prompts) > 1 else "the prompt"
    if not length:
        raise InvalidField(f"{which} is empty: it must hold at least one token", "prompt")
    limit = context if request.max_tokens == 0 else context - 1
    if length > limit:
        raise PromptTooLong(
            f"{which} has {'' if is_counted else 'at least '}{length} tokens, but the model's context holds {context}"
            + ("" if request.max_tokens == 0 else ", at least one of them for the answer"),
            "prompt",
            details={
                "n_prompt_tokens": length,
                "n_ctx": context,
                "n_answer": 1 if request.max_tokens is None else request.max_tokens,
                **({"prompt": index} if len(request.prompts) > 1 else {}),
                **({} if is_counted else {"is_counted": 0}),
            },
        )
