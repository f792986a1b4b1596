"""Messages between the parent and a server process: calls in both directions, each of which is answered."""

import msgspec
from msgspec import Struct

from segue.types import Adapter, Failed

# --- server process → parent ----------------------------------------------------------------------


class Started(Struct, frozen=True, tag=True, array_like=True):
    """It takes connections from now on."""


class Open(Struct, frozen=True, tag=True, array_like=True):
    """Start the model if need be. Answered with the address of its engine once it is up."""

    model: str


class Keep(Struct, frozen=True, tag=True, array_like=True):
    """A client set how long the model stays loaded without use; None: it takes that back. Answered once all know."""

    model: str
    seconds: float | None


class Apply(Struct, frozen=True, tag=True, array_like=True):
    """A client set the adapters of requests that name none. Answered once every process knows."""

    model: str
    adapters: tuple[Adapter, ...]


class Crashed(Struct, frozen=True, tag=True, array_like=True):
    """The model's worker of that number is gone. `running`: digests of requests it had from here, by their ids."""

    model: str
    worker: int
    running: dict[str, bytes]


# --- parent → server process ----------------------------------------------------------------------


class Opening(Struct, frozen=True, tag=True, array_like=True):
    """The model is being started, or is up: open it too."""

    model: str


class LastUse(Struct, frozen=True, tag=True, array_like=True):
    """How many seconds ago was the model used there? Answered with BUSY while it is in use.

    `ago_s`: the shortest answer of all processes the last time.
    """

    model: str
    ago_s: float


class Unload(Struct, frozen=True, tag=True, array_like=True):
    """Leave the model's engine. Answered with BUSY, and not done, if it was used less than `idle_s` ago."""

    model: str
    idle_s: float


class Kept(Struct, frozen=True, tag=True, array_like=True):
    """From now on, the model stays loaded for so long without use. None: until it is unloaded otherwise."""

    model: str
    seconds: float | None


class Applied(Struct, frozen=True, tag=True, array_like=True):
    model: str
    adapters: tuple[Adapter, ...]


class Ping(Struct, frozen=True, tag=True, array_like=True):
    """Answered at once, unless the process hangs."""


class Stop(Struct, frozen=True, tag=True, array_like=True):
    """Drain and end. A second one shortens the drain."""


BUSY = -1.0

ToParent = Started | Open | Keep | Apply | Crashed
ToProcess = Opening | LastUse | Unload | Kept | Applied | Ping | Stop
Message = ToParent | ToProcess
Answer = str | float | None

# --- both -----------------------------------------------------------------------------------------


class Call(Struct, frozen=True, tag=True, array_like=True):
    number: int
    message: Message


class Returned(Struct, frozen=True, tag=True, array_like=True):
    number: int
    answer: Answer = None
    error: Failed | None = None


frames = msgspec.msgpack.Decoder(Call | Returned)
encode = msgspec.msgpack.Encoder().encode
