"""`/v1/stream`: streams that went on without their client are taken up again, or stopped."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from segue.bounds import MAX_KEPT_NAME
from segue.dialects.base import Flow, Reply, Service
from segue.dialects.fields.kinds import Mismatch, Text, Texts
from segue.dialects.fields.table import Field, Table
from segue.errors import InvalidField


@dataclass(frozen=True)
class Offset:
    """A number of bytes, as a query has it."""

    def read(self, value: Any) -> int:
        if type(value) is str and value.isascii() and value.isdigit() and len(value) <= 19:
            return int(value)
        raise Mismatch("a number of bytes", value)

    def schema(self) -> dict[str, Any]:
        return {"type": "integer", "minimum": 0}


NAME = Field(
    "conv_id", Text(MAX_KEPT_NAME), "The X-Conversation-Id of its request.", "name", default=""
)
STREAM_FIELDS = Table(
    (NAME, Field("from", Offset(), "Bytes that were read before.", "start", default=0))
)
STOP_FIELDS = Table((NAME,))
LOOKUP_FIELDS = Table(
    (
        Field(
            "conversation_ids",
            Texts(256, MAX_KEPT_NAME),
            "Names; `a` is also that of `a::model`.",
            "names",
            default=(),
        ),
    )
)


async def read(service: Service, values: Mapping[str, Any]) -> Reply:
    return Reply(
        Flow(service.kept_stream(values["tenant"], _named(values), values["start"]), bytes)
    )


async def stop(service: Service, values: Mapping[str, Any]) -> Reply:
    """One that is not there is stopped too."""
    service.stop_stream(values["tenant"], _named(values))
    return Reply("", 204, (("content-type", "application/json"),))


def _named(values: Mapping[str, Any]) -> str:
    name: str = values["name"]
    if not name:
        raise InvalidField("Missing conversation id in path", "conv_id")
    return name


async def look_up(service: Service, values: Mapping[str, Any]) -> Reply:
    known = service.kept_streams(values["tenant"])
    return Reply(
        [
            {
                "conversation_id": each.name,
                "is_done": each.is_done,
                "total_bytes": each.num_bytes,
                "started_at": each.started,
                "completed_at": each.completed,
            }
            for name in values["names"]
            for each in known
            if each.name == name or each.name.startswith(f"{name}::")
        ]
    )
