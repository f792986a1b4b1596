"""A hundred damaged GGUFs, and models that end the process that loads them."""

import asyncio
import os
import random
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

from segue.engine.process import fleet
from segue.engine.process.fleet import Member
from segue.engine.process.supervisor import Supervisor, next_pause
from segue.engine.seam import Engine, Loaded
from segue.errors import ModelUnavailable
from segue.runners.fake import FakeLoader
from tests.support.live import Live
from tests.support.waiting import PATIENCE_S

NUM_MUTANTS = 100


def mutate(sound: bytes, dice: random.Random) -> bytes:
    """Cut short, flipped bits, a lying length, a stretch of noise, or a stretch left out."""
    data = bytearray(sound)
    at = dice.randrange(8, len(data)) if dice.random() < 0.3 else dice.randrange(8, 4000)
    match dice.randrange(5):
        case 0:
            del data[at:]
        case 1:
            data[at] ^= 1 << dice.randrange(8)
        case 2:
            data[at : at + 8] = dice.choice([b"\xff" * 8, b"\0" * 8, (2**40).to_bytes(8, "little")])
        case 3:
            data[at : at + 64] = dice.randbytes(64)
        case _:
            del data[at : at + dice.randrange(1, 100)]
    return bytes(data)


def test_every_mutant_is_loaded_or_refused_with_a_reason(tiny_gguf: Path, tmp_path: Path) -> None:
    dice = random.Random(20)
    files = []
    for number in range(NUM_MUTANTS):
        files.append(tmp_path / f"{number}.gguf")
        files[-1].write_bytes(mutate(tiny_gguf.read_bytes(), dice))
    ends: dict[str, str] = {}
    num_deaths = 0
    while left := [str(file) for file in files if str(file) not in ends]:
        run = subprocess.run(
            [sys.executable, "-m", "tests.support.mutants", *left],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        told = [line.split("\t") for line in run.stdout.splitlines()]
        ends |= {path: f"{end} {why}" for path, end, why in told}
        if run.returncode:  # the worker would have died here, and the server have said so
            num_deaths += 1
            ends[left[len(told)]] = f"died of {run.returncode}"
    refused = [end for end in ends.values() if end.startswith("refused ")]
    assert len(refused) > NUM_MUTANTS // 2
    assert all(len(end) > 20 for end in refused)
    assert num_deaths <= NUM_MUTANTS // 20, "the check of the header should find nearly all"


@dataclass(frozen=True)
class DeadlyLoader:
    """As a model would be that makes its library abort. Notes each time it is tried."""

    log: str

    def __call__(self) -> Loaded:
        with open(self.log, "a", encoding="utf-8") as file:
            file.write("tried\n")
        os.abort()


def test_a_model_that_ends_its_loader_is_said_to(tmp_path: Path) -> None:
    async def main() -> None:
        supervisor = Supervisor(DeadlyLoader(str(tmp_path / "log")), 64)
        with pytest.raises(ModelUnavailable, match="was ended by SIGABRT"):
            await supervisor.start()

    asyncio.run(main())


def test_the_server_goes_on_beside_a_model_that_cannot_be_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its clients get 503 and the reason stays in the log; it is not tried again with every request."""
    monkeypatch.setattr(fleet, "_FIRST_PAUSE_S", 60.0)  # longer than all requests of this test take
    tries = tmp_path / "tries"

    async def start_deadly() -> Engine:
        supervisor = Supervisor(DeadlyLoader(str(tries)), 64)
        await supervisor.start()
        return supervisor

    with Live(FakeLoader()) as live:
        deadly = Member("deadly", (), start_deadly)
        live.fleet._members.append(deadly)
        live.fleet._by_name["deadly"] = deadly
        good: list[int] = []
        beside = threading.Thread(
            target=lambda: good.append(live.complete(model="fake", max_tokens=2000).status_code)
        )
        beside.start()
        for _ in range(3):
            answer = live.complete(model="deadly")
            assert answer.status_code == 503
            assert int(answer.headers["retry-after"]) > 0
            assert str(tmp_path) not in answer.text
            assert "SIGABRT" not in answer.text
        beside.join(PATIENCE_S)
        assert good == [200]
        assert live.client.get("/health").status_code == 200
    assert tries.read_text("utf-8").count("tried") == 1


def test_pauses_grow_and_are_bounded() -> None:
    pauses = [0.0]
    for _ in range(12):
        pauses.append(next_pause(pauses[-1], lived_s=1.0, has_loaded=False))
    assert pauses[1:4] == [0.25, 0.5, 1.0]
    assert pauses[-1] == 60.0
    assert next_pause(60.0, lived_s=1.0, has_loaded=True) == 4.0
    assert next_pause(4.0, lived_s=3600.0, has_loaded=True) == 0.25
    assert next_pause(4.0, lived_s=45.0, has_loaded=True) == 0.25, (
        "killed every minute is no crash loop"
    )
