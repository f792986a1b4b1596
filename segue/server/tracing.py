"""A span of OpenTelemetry for each request, sent to a collector over OTLP/HTTP. The extra `otel` brings the SDK.

A span is made when its request has ended, from what its record holds: running requests are not slowed down. Nothing
of prompts or answers is in it.
"""

import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from segue import __version__
from segue.errors import SetupError
from segue.server.admission.admission import Trace
from segue.server.admission.request_record import RequestRecord

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

log = logging.getLogger(__name__)

MISSING = "traces need the extra otel: pip install 'segue[otel]'"
LAST_SPANS_S = 2.0
_STANDARD = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PATH = "/v1/traces"
_MAX_PATH_CHARS = 200

Value = str | int | float | list[str] | None


class Row(NamedTuple):
    """An attribute of a span; None is left out. Those of `of_model` are for requests that reached a model."""

    name: str
    read: Callable[[RequestRecord, str], Value]
    of_model: bool = True


# The names are those of OpenTelemetry's conventions for HTTP and for generative models; latencies as vLLM names them.
ROWS = (
    Row("http.request.method", lambda record, _: record.method, of_model=False),
    Row("url.path", lambda record, _: _path(record), of_model=False),
    Row("http.response.status_code", lambda record, _: record.status, of_model=False),
    Row("error.type", lambda record, _: _error(record), of_model=False),
    Row("gen_ai.response.id", lambda record, _: record.public_id, of_model=False),
    Row("segue.dialect", lambda _, dialect: dialect, of_model=False),
    Row("segue.key", lambda record, _: record.tenant or None, of_model=False),
    Row("gen_ai.operation.name", lambda *_: "text_completion"),
    Row("gen_ai.provider.name", lambda *_: "segue"),
    Row("gen_ai.request.model", lambda record, _: record.model),
    Row("gen_ai.usage.input_tokens", lambda record, _: record.prompt_tokens),
    Row("gen_ai.usage.output_tokens", lambda record, _: record.completion_tokens),
    Row("gen_ai.usage.cache_read.input_tokens", lambda record, _: record.cached_tokens),
    Row("gen_ai.response.finish_reasons", lambda record, _: _reasons(record)),
    Row("gen_ai.latency.time_in_queue", lambda record, _: record.queue_s),
    Row("gen_ai.latency.time_to_first_token", lambda record, _: record.token_s),
    Row("gen_ai.latency.e2e", lambda record, _: record.elapsed_s),
)


@contextmanager
def exporting(endpoint: str, environ: Mapping[str, str] = os.environ) -> Iterator[Trace | None]:
    """What traces requests, if `endpoint` or a standard variable asks for it. What is left is sent at the end."""
    is_asked = any(environ.get(name) for name in _STANDARD)
    is_off = environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    if is_off or not (endpoint or is_asked):
        yield None
        return
    if endpoint and not endpoint.startswith(("http://", "https://")):
        raise SetupError(f"--otlp-endpoint must be a URL of http or https, not {endpoint!r}")
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError:
        if endpoint:
            raise SetupError(MISSING) from None
        # The variables may be meant for every program of a machine.
        log.warning("%s is set, but %s", next(filter(environ.get, _STANDARD)), MISSING)
        yield None
        return
    with tracing(OTLPSpanExporter(endpoint=_whole(endpoint) if endpoint else None)) as trace:
        yield trace


@contextmanager
def tracing(exporter: "SpanExporter") -> Iterator[Trace]:
    """Spans are sent in batches, by a thread of the SDK's."""
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.trace import SpanKind, Status, StatusCode
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    own = Resource.create({"service.name": "segue", "service.version": __version__})
    # What the OTEL_* variables say of this service comes last, and counts.
    provider = TracerProvider(
        resource=own.merge(OTELResourceDetector().detect()), shutdown_on_exit=False
    )
    provider.add_span_processor(BatchSpanProcessor(exporter))
    tracer, w3c = provider.get_tracer("segue", __version__), TraceContextTextMapPropagator()

    def trace(record: RequestRecord, dialect: str) -> None:
        if record.is_probe:
            return
        carrier = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in record.headers
        }
        span = tracer.start_span(
            _name(record),
            context=w3c.extract(carrier),  # the client's trace goes on
            kind=SpanKind.SERVER,
            attributes=attributes(record, dialect),
            start_time=record.started_ns,
        )
        if _error(record):
            span.set_status(Status(StatusCode.ERROR))
        span.end(record.started_ns + int(record.elapsed_s * 1e9))

    try:
        yield trace
    finally:
        # A collector that does not answer must not hold up the end.
        ending = threading.Thread(target=provider.shutdown, daemon=True)
        ending.start()
        ending.join(LAST_SPANS_S)


def attributes(record: RequestRecord, dialect: str) -> dict[str, str | int | float | list[str]]:
    values = {
        row.name: row.read(record, dialect) for row in ROWS if record.model or not row.of_model
    }
    return {name: value for name, value in values.items() if value is not None}


def _whole(endpoint: str) -> str:
    """The address of traces at a collector's, as the standard variables are read."""
    base = endpoint.rstrip("/")
    return base if base.endswith(_PATH) else base + _PATH


def _name(record: RequestRecord) -> str:
    """Few names: what clients make up, such as paths, is among the attributes."""
    return f"text_completion {record.model}" if record.model else record.method


def _path(record: RequestRecord) -> str:
    """Text that can be encoded, whatever a client sent."""
    return record.path[:_MAX_PATH_CHARS].encode(errors="backslashreplace").decode()


def _error(record: RequestRecord) -> str | None:
    """What went wrong here; a client's mistake is no error of ours, whoever found it."""
    return (record.failure or f"{record.status}") if record.outcome >= 500 else None


def _reasons(record: RequestRecord) -> list[str] | None:
    return [reason for _, reason in sorted(record.reasons.items())] or None
