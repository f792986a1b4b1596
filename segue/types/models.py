"""Facts about models, and figures of the engines that run them."""

from typing import Literal

from msgspec import Struct

from segue.types.steps import Step


class Origin(Struct, frozen=True, kw_only=True):
    """What a model was loaded from: a GGUF file, or a folder of safetensors."""

    format: Literal["gguf", "safetensors"] = "gguf"
    num_bytes: int = 0
    digest: str = ""  # its SHA-256; empty where nobody computed it
    modified: float = 0.0  # seconds since 1970; 0: unknown
    metadata: dict[str, str | int | float | bool | None] = {}  # by GGUF's names; None: an array


class ModelDefaults(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a model's own files want it sampled. Dialects of systems that read such files keep to it."""

    source: str  # the name of the file, without its path
    sampling: dict[str, int | float | tuple[Step, ...]] = {}  # by field of Sampling
    is_greedy: bool = False  # its generation_config.json has do_sample false
    max_tokens: int | None = None  # no answer is longer
    show_special: bool | None = None  # the opposite of its skip_special_tokens


class ModelInfo(Struct, frozen=True, kw_only=True):
    """Facts about a loaded model. Servers that share a fingerprint give the same bytes, unless it says otherwise."""

    name: str
    architecture: str
    runner: str
    context_length: int
    vocab_size: int
    num_params: int
    size_bytes: int  # of the weights
    quantization: str
    has_fim: bool
    deterministic: bool  # the same request gives the same bytes, whatever runs beside it
    fingerprint: str  # of all that answers depend on
    kv_tokens: int
    kv_block: int = 1  # memory for them is handed out in blocks of so many
    num_states: int = 0  # sequences at once, cached prefixes included, if layers carry states
    state_bytes: int = 0  # of each of them
    seeds_requests: bool = True  # a request without a seed gets one, which its answer names
    train_context: int = 0
    chat_template: str | None = None
    bos_token: str = ""
    eos_token: str = ""
    end_tokens: tuple[int, ...] = ()  # tokens that end an answer
    file: str = ""  # the name of the model's file, without its path: clients must not learn paths of this machine
    origin: Origin = Origin()
    on_gpu: bool = False  # whether its weights are in the memory of a GPU
    adapter_digests: dict[str, str] = {}  # SHA-256 of its LoRA adapters, by name
    defaults: ModelDefaults | None = None  # None: it brings none, or they are off

    @property
    def file_bytes(self) -> int:
        """The size that people are told: of the file, as they find it on disk; of the weights where there is none."""
        return self.origin.num_bytes or self.size_bytes


class ServedAdapter(Struct, frozen=True):
    """A LoRA adapter that a model is served with. Its place in the model's list is its number."""

    name: str
    file: str  # by its name alone
    scale: float = 1.0  # of requests that name it
    applied: float = 0.0  # of requests that say nothing of adapters; 0: it is left out


class ModelChange(Struct, frozen=True):
    """What became of a served model. `failed`: it could not be loaded."""

    model: str
    status: Literal["loading", "ok", "idle"]
    failed: bool = False


class Stats(Struct, frozen=True, kw_only=True):
    """Gauges and running totals of one engine since it started."""

    running: int = 0
    waiting: int = 0
    slots_used: int = 0
    slots_total: int = 0
    cells_used: int = 0
    cells_running: int = 0  # of these, those of running sequences; cached prefixes give theirs up where room is needed
    cells_total: int = 0
    steps: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    prefilled_tokens: int = 0
    completion_tokens: int = 0
    preemptions: int = 0
    evictions: int = 0
    finished: int = 0
    cancelled: int = 0
    failed: int = 0
    draft_tokens: int = 0
    draft_accepted: int = 0
    draft_accepted_at: tuple[int, ...] = ()  # by their place in a draft, of the first places
    drafts: int = 0  # how often draft tokens were computed
    stepped: int = 0  # sequences per step, summed over all steps
    longest: int = 0  # tokens of the longest sequence, prompt and answer together
    prompt_s: float = 0.0  # seconds spent on prompts and on answers, summed over sequences
    decode_s: float = 0.0
    restarts: int = 0
    age_s: float = 0.0  # the age of these figures in seconds; large only during long steps
