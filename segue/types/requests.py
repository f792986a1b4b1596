"""What is asked: a request, its prompts, and how tokens are drawn and texts constrained."""

from typing import Literal

from msgspec import Struct

from segue.types.steps import SCALE_FIRST, Step


class Prompt(Struct, frozen=True, array_like=True):
    """Text and token ids in the order given. Token ids are taken as they are: no BOS is added to them."""

    parts: tuple[str | tuple[int, ...], ...]
    add_special: bool = True  # BOS before leading text, if the model wants one
    parse_special: bool = True  # "<|im_end|>" in a text is read as the token, not as characters


class Sampling(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the next token is drawn. Every default is neutral: it leaves the distribution alone."""

    # Steps that are not named are not applied, but for logit_bias: that comes first then.
    order: tuple[Step, ...] = SCALE_FIRST
    seed: int | None = None

    temperature: float = 1.0  # 0 is greedy
    dynatemp_range: float = 0.0  # temperature ± this value: higher where the model is less sure
    dynatemp_exponent: float = 1.0
    top_k: int = 0  # 0 is off
    top_p: float = 1.0
    min_p: float = 0.0
    typical_p: float = 1.0
    top_n_sigma: float = -1.0  # 0 or less is off
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1  # above 0.5 no token can be excluded
    min_keep: int = 0  # top_p, min_p, typical_p and xtc leave at least this many candidates
    adaptive_target: float = -1.0  # below 0 is off; used only if the order names adaptive_p
    adaptive_decay: float = 0.9
    mirostat: int = 0  # 1 or 2: replaces every filter
    mirostat_tau: float = 5.0
    mirostat_eta: float = 0.1

    repetition_penalty: float = 1.0  # looks at prompt and output
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    penalty_window: int = -1  # how many of the last tokens are penalized; -1: all
    penalize_prompt: bool = False  # whether presence and frequency count prompt tokens too
    repetition_last: bool = False  # the repetition penalty acts after these two, not before them
    dry_multiplier: float = 0.0  # 0 is off; looks at prompt and output
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_window: int = -1  # how many of the last tokens DRY looks at; -1: all
    dry_sequence_breakers: tuple[str, ...] = ("\n", ":", '"', "*")

    logit_bias: dict[int, float] = {}  # minus infinity bans the token
    text_bias: tuple[tuple[str, float], ...] = ()  # a bias for every token of a text
    allowed_token_ids: tuple[int, ...] | None = None  # no other token is drawn
    bad_words: tuple[str, ...] = ()
    ignore_eos: bool = False  # end tokens are not drawn
    pass_eos: bool = False  # end tokens are drawn like any other, and the text goes on after them
    min_tokens: int = 0  # until so many tokens: no end token, stop token or stop string
    stop_token_ids: tuple[int, ...] = ()


class Truncation(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a prompt that is too long is cut."""

    max_tokens: int | None = None  # None: what the context holds beside the answer
    num_kept: int = 0  # tokens at the start of the prompt that are never dropped
    keeps_bos: bool = False  # the same for a BOS that the tokenizer has put in front of a text
    side: Literal["start", "end"] = "start"  # where it is cut


class Shift(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An answer that fills the context goes on: tokens after the first ones are dropped, again and again."""

    num_kept: int = 0  # tokens of the prompt's start that stay, besides BOS; -1: the whole prompt
    num_dropped: int = 0  # tokens that go each time; 0: half of those that do not stay
    most_tokens: int | None = None  # of an answer, whatever max_tokens says: a server's bound
    optional: bool = False  # an engine that cannot do it ends the answer there


class Repetition(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """When a choice ends because it repeats itself: its last tokens are one pattern, so many times in a row."""

    max_size: int  # tokens of a pattern
    min_size: int = 1
    min_count: int = 2


ConstraintKind = Literal[
    "json_schema",  # a JSON schema
    "json_object",  # any JSON object
    "regex",  # matches the whole output
    "choice",  # one of these texts
    "gbnf",  # llama.cpp's grammars
    "lark",  # Lark as llguidance reads it
    "grammar",  # GBNF or Lark: the text shows which
    "llguidance",  # llguidance's own JSON: a list of grammars
    "structural_tag",  # free text; after a begin tag, the text must match the schema of that tag
]


TriggerKind = Literal["token", "word", "pattern", "pattern_full"]


class Trigger(Struct, frozen=True, array_like=True):
    """From where a constraint holds: a token, a text, or a match of a pattern, in what was generated so far.

    The text from the match on is part of what must match, or from the first of the pattern's groups that has text.
    """

    kind: TriggerKind  # the last: a match of all so far
    value: str = ""
    token: int = 0
    param: str = "grammar_triggers"  # the caller's name of it, for messages


class Constraint(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the output must match. A call of a tool is the JSON schema of that call."""

    kind: ConstraintKind
    value: str | tuple[str, ...] = ""  # in the syntax of its kind; the texts of a choice
    param: str = "grammar"  # the caller's name of the field, for messages
    within: str = ""  # where in that field it stands, for messages: ".json_schema.schema"
    lenient: bool = False  # schema keywords that cannot be enforced are ignored
    whitespace: str | None = None  # between JSON tokens: a regex; "": none; None: a little
    max_digits: int | None = None  # of a schema's numbers, where no bound says more; None: any
    triggers: tuple[Trigger, ...] = ()  # the output is free until one comes; none: it holds at once
    preserved: tuple[str, ...] = ()  # tokens that may be triggers by their text


InfillMethod = Literal["fim", "ranked"]  # by the model's own tokens, or by ranking continuations


class Snippet(Struct, frozen=True, array_like=True):
    """Part of another file, as context for the model."""

    text: str
    filename: str = ""


class Infill(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Each prompt is what stands before the cursor, `suffix` what stands after; the answer goes between."""

    suffix: Prompt
    snippets: tuple[Snippet, ...] = ()  # the least important first: it is dropped first
    repo: str = ""
    filename: str = ""
    order: Literal["auto", "psm", "spm"] = "auto"  # of prefix (P), suffix (S) and middle (M)
    mode: Literal["auto", "fim", "ranked"] = "auto"

    def method(self, has_fim: bool) -> InfillMethod | None:
        """How a model with or without FIM tokens answers. None: there is no suffix, so the prompt is continued."""
        method = ("fim" if has_fim else "ranked") if self.mode == "auto" else self.mode
        return None if method == "ranked" and not any(self.suffix.parts) else method


class Adapter(Struct, frozen=True, array_like=True):
    """A LoRA adapter of a request: by its name, or by its place in the server's list, counted from 0.

    `scale`: how much of it is added; None is the scale it was served with.
    """

    name: str | int
    scale: float | None = None


class CompletionRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    request_id: str
    model: str
    prompts: tuple[Prompt, ...]
    max_tokens: int | None = 16  # None: until the context is full; 0: score the prompt only
    shift: Shift | None = None  # None: an answer ends where the context is full
    n: int = 1
    best_of: int | None = None  # candidates drawn for each prompt; n of them are returned
    beam_search: bool = False  # search for the likeliest texts; as many beams as candidates
    length_penalty: float = 1.0  # of beam search: above 0 prefers longer texts
    stop: tuple[str, ...] = ()
    include_stop: bool = False  # whether the stop string or token is part of the text
    show_special: bool = False  # whether control tokens are written in the text
    preserved: tuple[
        str, ...
    ] = ()  # texts; each that is one token is written in the text, whatever it is
    echo: bool = False
    tells_ids: bool = False  # whether each choice has the token ids of its prompt
    logprobs: int | None = None  # alternatives reported per generated token; 0: the chosen one only
    # Reported instead of the likeliest, in any order; only with `logprobs`
    logprob_token_ids: tuple[int, ...] = ()
    prompt_logprobs: int | None = None  # the same as logprobs for prompt tokens
    score_stops: bool = False  # whether tokens of a stop string that is left out are scored too
    post_sampling_probs: bool = False  # logprobs after the sampling steps, not of the raw logits
    infill: Infill | None = None
    sampling: Sampling = Sampling()
    truncation: Truncation | None = None  # None: a prompt that is too long is refused
    min_indent: int = 0  # a choice ends before a later line that is indented less
    time_limit_s: float | None = None  # a choice ends at the first line break after this time
    repetition: Repetition | None = None
    report_progress: bool = False  # send Progress events while a prompt is read
    constraint: Constraint | None = None
    adapters: tuple[Adapter, ...] | None = None  # settled by the server; None: those it applies
    use_cache: bool = True
    client_slot: int | None = None  # what the client calls the place where its prompt is kept
    cache_salt: str = ""  # prompts share cached prefixes only within one salt
    tenant: str = ""  # the owner of the API key; the engine serves tenants in turn
    priority: int = 0  # lower is served first, by engines that know priorities

    @property
    def num_top(self) -> int:
        """Alternatives that are reported of each generated token, if any are."""
        return len(self.logprob_token_ids) or self.logprobs or 0

    @property
    def num_candidates(self) -> int:
        return self.n if self.best_of is None else self.best_of
