"""`/slots`: what is being computed, and slots that are saved to a file, restored and erased."""

from collections.abc import Mapping
from typing import Any

from segue.bounds import MAX_INT32
from segue.dialects.base import Reply, Service
from segue.dialects.fields.kinds import Boolean, LaxFlag, Text
from segue.dialects.fields.table import Field, Table, show
from segue.dialects.llamacpp.pages import MODEL, ready
from segue.errors import InvalidField, SegueError, Unavailable
from segue.types import SlotAction, SlotResult, SlotVerb

SLOTS_FIELDS = Table(
    (
        MODEL,
        Field(
            "fail_on_no_slot",
            LaxFlag(Boolean()),
            "1: answer 503 when every slot is busy.",
            "must_have_free",
            default=False,
        ),
    )
)


async def slots(service: Service, values: Mapping[str, Any]) -> Reply:
    info = ready(service, values["model"])
    stats = await service.stats(info.name)
    if values["must_have_free"] and stats.slots_used >= stats.slots_total:
        raise Unavailable("no slot available")
    about = {"n_ctx": info.context_length, "speculative": True}
    held = await _held(service, info.name, values["tenant"])
    return Reply(
        [
            {"id": slot, **about, "is_processing": slot < stats.slots_used, **held.get(slot, {})}
            for slot in range(stats.slots_total)
        ]
    )


async def _held(service: Service, model: str, tenant: str) -> dict[int, dict[str, int]]:
    """What that key's slots hold, by their numbers; nothing where they cannot be saved, or a step takes long."""
    try:
        done = await service.act_on_slot(model, SlotAction(verb="look", tenant=tenant))
    except SegueError:
        return {}
    return {
        each.slot: {"n_prompt_tokens": each.num_prompt, "n_past": each.num_held}
        for each in done.held
    }


ACTION_FIELDS = Table(
    (
        MODEL,
        Field("action", Text(16), "In the query: save, restore or erase.", "action", default=""),
        Field(
            "filename",
            Text(1024),
            "Of save and restore: a plain name, in the folder of --slot-save-path.",
            "filename",
            default="",
        ),
    )
)
_VERBS: Mapping[str, SlotVerb] = {"save": "save", "restore": "restore", "erase": "erase"}


async def act_on_slot(service: Service, values: Mapping[str, Any]) -> Reply:
    number, verb = _number(values["id_slot"]), _VERBS.get(values["action"])
    if verb is None:
        raise InvalidField(
            f"Invalid action: it must be save, restore or erase, not {show(values['action'])}",
            "action",
        )
    name = "" if verb == "erase" else values["filename"]
    action = SlotAction(verb=verb, slot=number, filename=name, tenant=values["tenant"])
    done = await service.act_on_slot(values["model"], action)
    return Reply({"id_slot": number, **_told(verb, name, done)})


def _number(given: str) -> int:
    number = int(given) if given.isascii() and given.isdigit() and len(given) <= 10 else -1
    if not 0 <= number <= MAX_INT32:
        raise InvalidField(
            f"Invalid slot ID: it must be a whole number from 0 on, not {show(given)}", "id_slot"
        )
    return number


def _told(verb: SlotVerb, name: str, done: SlotResult) -> dict[str, Any]:
    took_ms = round(1000 * done.seconds, 3)
    match verb:
        case "save":
            counts = {"n_saved": done.num_tokens, "n_written": done.num_bytes}
            return {"filename": name, **counts, "timings": {"save_ms": took_ms}}
        case "restore":
            counts = {"n_restored": done.num_tokens, "n_read": done.num_bytes}
            return {"filename": name, **counts, "timings": {"restore_ms": took_ms}}
        case _:
            return {"n_erased": done.num_tokens}
