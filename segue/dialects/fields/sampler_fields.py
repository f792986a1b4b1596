"""The samplers that llama.cpp, Ollama and mistral.rs have beyond OpenAI's, as rows to pick from."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from segue.bounds import MAX_BIASES, MAX_INT32, MAX_NUMBER, MAX_SAMPLING_STEPS
from segue.dialects.fields.kinds import (
    Boolean,
    Integer,
    Mismatch,
    Number,
    Text,
    Texts,
    TokenIds,
    token_ids,
    token_of,
)
from segue.dialects.fields.table import Draft, Field, Table
from segue.types import STEP_NAMES, Sampling, Step, step_named

_SHOWN_CHARS = 32  # of a key, in an error
_BREAKERS_CHARS = 8192

# The letter by which llama.cpp knows a step.
STEP_LETTERS: dict[str, Step] = {
    "e": "penalties",
    "d": "dry",
    "s": "top_n_sigma",
    "k": "top_k",
    "y": "typical_p",
    "p": "top_p",
    "m": "min_p",
    "x": "xtc",
    "t": "temperature",
    "i": "infill",
    "a": "adaptive_p",
}


@dataclass(frozen=True)
class Steps:
    """The order of sampling steps: a list of names, or a string of their letters."""

    def read(self, value: Any) -> tuple[Step, ...]:
        if type(value) is str:
            letters = Text(MAX_SAMPLING_STEPS).read(value)
            return tuple(_of_letter(letter) for letter in letters)
        names = Texts(MAX_SAMPLING_STEPS, 32).read(value)
        return tuple(_of_name(name, f"[{i}]") for i, name in enumerate(names))

    def schema(self) -> dict[str, Any]:
        names = {
            "type": "array",
            "items": {"enum": list(STEP_NAMES)},
            "maxItems": MAX_SAMPLING_STEPS,
        }
        letters = {"type": "string", "pattern": f"^[{''.join(STEP_LETTERS)}]*$"}
        return {"anyOf": [names, letters]}


def _of_letter(letter: str) -> Step:
    if letter not in STEP_LETTERS:
        raise Mismatch(f"one of {', '.join(STEP_LETTERS)}", letter)
    return STEP_LETTERS[letter]


def _of_name(name: str, at: str) -> Step:
    step = step_named(name)
    if step is None:
        raise Mismatch(f"one of {', '.join(dict.fromkeys(STEP_NAMES.values()))}", name, at)
    return step


@dataclass(frozen=True)
class Biases:
    """An object, or a list of pairs, of token ids or texts with a bias each; false bans them.

    The value is by id or text: `split_biases` puts each where the core wants it. Biases of one token add up.
    """

    max_bias: float
    clamp: bool = False  # a larger bias counts as the largest

    def read(self, value: Any) -> dict[int | str, float]:
        pairs = list(value.items()) if type(value) is dict else value
        if type(pairs) is not list or len(pairs) > MAX_BIASES:
            expected = f"an object or a list of at most {MAX_BIASES} pairs of a token and its bias"
            raise Mismatch(expected, value)
        biases: dict[int | str, float] = {}
        for i, pair in enumerate(pairs):
            at = f"[{pair[0][:_SHOWN_CHARS]}]" if pairs is not value else f"[{i}]"
            try:
                token, bias = self._pair(pair)
            except Mismatch as wrong:
                raise wrong.inside(at) from None
            biases[token] = biases.get(token, 0.0) + bias
        return biases

    def _pair(self, pair: Any) -> tuple[int | str, float]:
        if type(pair) not in (list, tuple) or len(pair) != 2:
            raise Mismatch("a pair of a token id or text and its bias", pair)
        token, bias = pair
        if bias is False:
            return self._token(token), -math.inf
        number = Number(-self.max_bias, self.max_bias, clamp=self.clamp)
        return self._token(token), number.read(bias)

    def _token(self, token: Any) -> int | str:
        if type(token) is str and token:
            spelled = token_of(token)
            return Text(256).read(token) if spelled is None else spelled
        if type(token) is not int:
            raise Mismatch("a token id or a text", token)
        return token_ids([token], "")[0]

    def schema(self) -> dict[str, Any]:
        bias = {"anyOf": [Number(-self.max_bias, self.max_bias).schema(), {"const": False}]}
        by_name = {"type": "object", "additionalProperties": bias, "maxProperties": MAX_BIASES}
        token = {"type": ["integer", "string"]}
        pair = {"type": "array", "prefixItems": [token, bias], "minItems": 2, "maxItems": 2}
        return {"anyOf": [by_name, {"type": "array", "items": pair, "maxItems": MAX_BIASES}]}


@dataclass(frozen=True)
class Breakers:
    """A list of strings, or its JSON as text, with or without brackets: some clients send it to any server."""

    texts: Texts

    def read(self, value: Any) -> tuple[str, ...]:
        if type(value) is not str or len(value) > _BREAKERS_CHARS:
            return self.texts.read(value)
        text = value if value.lstrip().startswith("[") else f"[{value}]"
        try:
            return self.texts.read(msgspec.json.decode(text))
        except (msgspec.DecodeError, RecursionError):
            raise Mismatch("a list of strings, or its JSON", value) from None

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [self.texts.schema(), Text(_BREAKERS_CHARS).schema()]}


def split_biases(draft: Draft) -> None:
    """Biases by id and biases by text, of the request or of the server's defaults, each to their own target."""
    biases: dict[int | str, float] = draft.values.pop("sampling.logit_bias", {})
    by_id = {token: bias for token, bias in biases.items() if isinstance(token, int)}
    by_text = tuple((text, bias) for text, bias in biases.items() if isinstance(text, str))
    if by_id:
        draft.values["sampling.logit_bias"] = by_id
    if by_text:
        draft.values["sampling.text_bias"] = by_text


# By step: the fields that turn it on. Those that only shape it say nothing of their own.
_FIELDS_OF: dict[Step, tuple[str, ...]] = {
    "penalties": ("repetition_penalty", "presence_penalty", "frequency_penalty"),
    "dry": ("dry_multiplier",),
    "top_n_sigma": ("top_n_sigma",),
    "top_k": ("top_k",),
    "typical_p": ("typical_p",),
    "top_p": ("top_p",),
    "min_p": ("min_p",),
    "xtc": ("xtc_probability",),
    "temperature": ("temperature", "dynatemp_range"),
    "adaptive_p": ("adaptive_target",),
}
# Where more values than the neutral one turn a step off.
_IS_OFF: dict[str, Callable[[float], bool]] = {
    "top_n_sigma": lambda value: value <= 0,
    "adaptive_target": lambda value: value < 0,
}
_NEUTRAL = Sampling()


def name_idle_steps(draft: Draft) -> None:
    """Name the fields of steps that do not act: the order leaves them out, or Mirostat stands in their place."""
    acting = set(draft.values.get("sampling.order", _NEUTRAL.order))
    if draft.values.get("sampling.mirostat"):
        acting = acting & {"penalties", "dry"} | {"temperature"}
    for step in [each for each in _FIELDS_OF if each not in acting]:
        for name in _FIELDS_OF[step]:
            given = draft.given.get(f"sampling.{name}")
            if given and given not in draft.ignored and _is_set(name, draft):
                draft.ignored.append(given)


def _is_set(name: str, draft: Draft) -> bool:
    value = draft.values[f"sampling.{name}"]
    is_off = _IS_OFF.get(name)
    return not is_off(value) if is_off else bool(value != getattr(_NEUTRAL, name))


# What vLLM has of the kind.
TOKEN_LIMITS = (
    Field(
        "min_tokens",
        Integer(0, MAX_INT32),
        "Before that many tokens nothing ends a choice.",
        "sampling.min_tokens",
    ),
    Field("stop_token_ids", TokenIds(), "Tokens that end a choice.", "sampling.stop_token_ids"),
    Field(
        "allowed_token_ids",
        TokenIds(),
        "Nothing else is drawn.",
        "sampling.allowed_token_ids",
    ),
    Field("bad_words", Texts(128, 256), "Texts that do not appear.", "sampling.bad_words"),
)

# Of the systems that set no bound; OpenAI's own are from -2 to 2.
PENALTIES = Table(
    (
        Field(
            "presence_penalty",
            Number(-MAX_NUMBER, MAX_NUMBER),
            "Against tokens that occurred.",
            "sampling.presence_penalty",
        ),
        Field(
            "frequency_penalty",
            Number(-MAX_NUMBER, MAX_NUMBER),
            "Against tokens, by how often they occurred.",
            "sampling.frequency_penalty",
        ),
    )
)
SAMPLERS = Table(
    (
        Field(
            "samplers",
            Steps(),
            "The order of the sampling steps; one that is not named does not act.",
            "sampling.order",
        ),
        Field(
            "dynatemp_range",
            Number(0, MAX_NUMBER),
            "The temperature moves by this much, up where the model is unsure.",
            "sampling.dynatemp_range",
        ),
        Field(
            "dynatemp_exponent",
            Number(0, MAX_NUMBER),
            "How the temperature follows the entropy.",
            "sampling.dynatemp_exponent",
        ),
        Field(
            "typical_p",
            Number(0, 1),
            "Locally typical sampling; 1 is off.",
            "sampling.typical_p",
        ),
        Field(
            "top_n_sigma",
            Number(-MAX_NUMBER, MAX_NUMBER),
            "Keep logits within this many deviations of the best; 0 and below are off.",
            "sampling.top_n_sigma",
        ),
        Field(
            "xtc_probability",
            Number(0, 1),
            "How often the likeliest tokens are excluded; 0 is off.",
            "sampling.xtc_probability",
        ),
        Field(
            "xtc_threshold",
            Number(0, 1),
            "Which tokens count as likely for that.",
            "sampling.xtc_threshold",
        ),
        Field(
            "min_keep",
            Integer(0, MAX_INT32),
            "Candidates that cuts by probability leave at least.",
            "sampling.min_keep",
        ),
        Field(
            "mirostat",
            Integer(0, 2),
            "Version of Mirostat, in place of every cut; 0 is off.",
            "sampling.mirostat",
        ),
        Field(
            "mirostat_tau",
            Number(0, MAX_NUMBER),
            "The surprise Mirostat aims at.",
            "sampling.mirostat_tau",
        ),
        Field(
            "mirostat_eta",
            Number(0, MAX_NUMBER),
            "How fast Mirostat learns.",
            "sampling.mirostat_eta",
        ),
        Field(
            "adaptive_target",
            Number(-MAX_NUMBER, 1),
            "The probability adaptive_p aims at; below 0 is off.",
            "sampling.adaptive_target",
        ),
        Field(
            "adaptive_decay",
            Number(0, 0.99),
            "How long adaptive_p remembers.",
            "sampling.adaptive_decay",
        ),
        Field(
            "dry_multiplier",
            Number(0, MAX_NUMBER),
            "Strength of DRY against repeated sequences; 0 is off.",
            "sampling.dry_multiplier",
        ),
        Field(
            "dry_base",
            Number(1, MAX_NUMBER),
            "How fast DRY grows with the length of a repetition.",
            "sampling.dry_base",
        ),
        Field(
            "dry_allowed_length",
            Integer(0, MAX_INT32),
            "The longest repetition DRY lets pass.",
            "sampling.dry_allowed_length",
        ),
        Field(
            "dry_penalty_last_n",
            Integer(-1, MAX_INT32),
            "Tokens DRY looks back on; -1 is all of them.",
            "sampling.dry_window",
        ),
        Field(
            "dry_sequence_breakers",
            Texts(64, 64),
            "Texts that a repetition does not reach across.",
            "sampling.dry_sequence_breakers",
        ),
        Field(
            "post_sampling_probs",
            Boolean(),
            "Report the probabilities tokens were drawn by, not the model's own.",
            "post_sampling_probs",
        ),
        Field("ignore_eos", Boolean(), "Go on past the end of the text.", "sampling.ignore_eos"),
    )
)
