"""A client's slots: what a client calls by a number, and may have written to a file and read back."""

from typing import Literal

from msgspec import Struct

SlotVerb = Literal["save", "restore", "erase"]


class SlotAction(Struct, frozen=True, kw_only=True, omit_defaults=True):
    verb: SlotVerb
    slot: int  # as requests give it: any number means one of the slots that there are
    filename: str = ""
    tenant: str = ""  # the owner of the API key: each has slots and files of its own
    cache_salt: str = ""  # of that key's prompts: what is restored serves them


class SlotResult(Struct, frozen=True, kw_only=True):
    num_tokens: int
    num_bytes: int = 0  # of the whole file
    seconds: float = 0.0
