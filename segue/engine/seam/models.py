"""What the engine asks of a vocabulary, and a model that is loaded: its runner, its vocabulary, facts about it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from segue.engine.seam.runners import Capabilities, MtpDrafting, Runner
from segue.engine.seam.slot_bytes import SlotBytes
from segue.types import ModelInfo


@dataclass(frozen=True)
class FimTokens:
    """The ids of a model's fill-in-the-middle tokens; None where the model has no such token."""

    prefix: int
    suffix: int
    middle: int | None
    pad: int | None = None
    repo: int | None = None
    file_sep: int | None = None
    suffix_first: bool = False  # whether the model knows that order only


class Vocab(Protocol):
    """Tokenizer of the served GGUF. Safe to call from several threads at once, except for `close`."""

    @property
    def size(self) -> int: ...

    @property
    def bos(self) -> int | None: ...

    @property
    def eos(self) -> int | None: ...

    @property
    def adds_bos(self) -> bool: ...

    @property
    def end_tokens(self) -> frozenset[int]:
        """Tokens that end a generation: EOS, EOT and their kin."""

    @property
    def fim(self) -> FimTokens | None: ...

    def tokenize(self, text: str, add_special: bool, parse_special: bool) -> list[int]: ...

    def piece(self, token: int) -> bytes:
        """The token's bytes, those of control tokens as written ("<|im_end|>")."""

    def is_control(self, token: int) -> bool:
        """Control tokens are not part of the output's text."""

    def close(self) -> None: ...


class Model(NamedTuple):
    """What the preparation of a request needs to know of the loaded model."""

    vocab: Vocab
    capabilities: Capabilities


class Loaded(NamedTuple):
    runner: Runner
    vocab: Vocab
    info: ModelInfo
    draft: Runner | None = None  # of a small model with the same vocabulary, for drafts
    mtp: MtpDrafting | None = None  # the runner, if its model drafts for itself
    lists: Callable[[], dict[str, bytes]] = dict  # what Engine.lists gives; slow
    slot_bytes: SlotBytes | None = None  # None: the runner's slots cannot be written out

    @property
    def model(self) -> Model:
        return Model(self.vocab, self.runner.capabilities)


class Loader(Protocol):
    """A picklable value, called once in the worker process. The command line chooses which."""

    def __call__(self) -> Loaded: ...
