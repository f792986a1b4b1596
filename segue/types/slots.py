"""A client's slots: what a client calls by a number, and may have written to a file and read back."""

from typing import Literal

from msgspec import Struct

SlotVerb = Literal["save", "restore", "erase", "look"]


class SlotAction(Struct, frozen=True, kw_only=True, omit_defaults=True):
    verb: SlotVerb
    slot: int = (
        0  # as requests give it: any number means one of the slots that there are; "look" is at all
    )
    filename: str = ""
    tenant: str = ""  # the owner of the API key: each has slots and files of its own
    cache_salt: str = ""  # of that key's prompts: what is restored serves them


class HeldText(Struct, frozen=True, array_like=True):
    """The text that ended last under a slot's number."""

    slot: int
    num_prompt: int
    num_held: int  # tokens of prompt and answer that a save would write; 0: its place was needed


class SlotResult(Struct, frozen=True, kw_only=True):
    num_tokens: int = 0
    num_bytes: int = 0  # of the whole file
    seconds: float = 0.0
    held: tuple[HeldText, ...] = ()  # of this tenant, by "look"
