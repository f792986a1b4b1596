"""A prompt that is read once, saved, and brought back by a server that was started anew."""

from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.support.models.tiny_models import MODELS
from tests.support.models.tiny_writer import write
from tests.support.serving import serving
from tests.support.waiting import LOADING_S

PROMPT = "Once there was a king who had a daughter. " * 12


def client_of(url: str, **headers: str) -> httpx2.Client:
    return httpx2.Client(base_url=url, timeout=LOADING_S, headers=headers)


def complete(client: httpx2.Client, **fields: Any) -> dict[str, Any]:
    asked = {"prompt": PROMPT, "n_predict": 12, "temperature": 0.8, "seed": 5, "n_probs": 2}
    answer = client.post("/completion", json=asked | fields)
    assert answer.status_code == 200, answer.text
    assert "x-segue-ignored" not in answer.headers
    found: dict[str, Any] = answer.json()
    return found


def act(client: httpx2.Client, slot: int, action: str, **body: Any) -> dict[str, Any]:
    answer = client.post(f"/slots/{slot}?action={action}", json=body or None)
    found: dict[str, Any] = answer.json() | {"status": answer.status_code}
    return found


def said(answer: dict[str, Any]) -> Any:
    return answer["content"], answer["completion_probabilities"]


@pytest.mark.model
def test_the_embedded_model_goes_on_from_a_file_after_a_restart(
    embedded_gguf: Path, tmp_path: Path
) -> None:
    arguments = (str(embedded_gguf), "--slot-save-path", str(tmp_path), "--threads", "2")
    with serving(*arguments) as served, client_of(served.url) as client:
        first = complete(client, id_slot=0)
        assert (first["id_slot"], first["timings"]["cache_n"]) == (0, 0)
        saved = act(client, 0, "save", filename="king.bin")
        assert saved == {
            "status": 200,
            "id_slot": 0,
            "filename": "king.bin",
            "n_saved": first["tokens_cached"],
            "n_written": (tmp_path / "king.bin").stat().st_size,
            "timings": saved["timings"],
        }
        assert saved["timings"]["save_ms"] > 0
    with serving(*arguments) as served, client_of(served.url) as client:
        restored = act(client, 3, "restore", filename="king.bin")
        assert restored == {
            "status": 200,
            "id_slot": 3,
            "filename": "king.bin",
            "n_restored": saved["n_saved"],
            "n_read": saved["n_written"],
            "timings": restored["timings"],
        }
        again = complete(client, id_slot=3)
        assert again["timings"]["cache_n"] == first["tokens_evaluated"] - 1
        assert again["timings"]["prompt_n"] == 1
        assert again["tokens_cached"] == first["tokens_cached"]
        assert said(again) == said(first)
        longer = PROMPT + first["content"]
        assert complete(client, prompt=longer)["timings"]["cache_n"] > first["tokens_evaluated"]
        erased = act(client, 3, "erase")
        assert erased == {"status": 200, "id_slot": 3, "n_erased": first["tokens_cached"]}
        assert said(complete(client)) == said(first)


def test_a_model_with_states_goes_on_where_its_prompt_ended(tmp_path: Path) -> None:
    path = write(tmp_path / "tiny.gguf", MODELS["qwen35"])
    (tmp_path / "slots").mkdir()
    arguments = [str(path), "--slot-save-path", str(tmp_path / "slots"), "--threads", "2"]
    arguments += ["--api-key", "ann:a", "--api-key", "bob:b", "--num-slots", "4"]
    begun, whole = PROMPT[:120], PROMPT[:200]
    with (
        serving(*arguments) as served,
        client_of(served.url, authorization="Bearer a") as client,
    ):
        wanted = complete(client, prompt=whole, cache_prompt=False)
        read = complete(client, prompt=begun, n_predict=0, id_slot=1)
        saved = act(client, 1, "save", filename="king.bin")
        assert saved["n_saved"] == read["tokens_evaluated"]
        with client_of(served.url, authorization="Bearer b") as bob:
            refused = act(bob, 1, "restore", filename="king.bin")
        assert (refused["status"], refused["error"]["type"]) == (400, "invalid_request_error")
        assert "another API key" in refused["error"]["message"]
    with (
        serving(*arguments) as served,
        client_of(served.url, authorization="Bearer a") as client,
    ):
        assert act(client, 0, "restore", filename="king.bin")["n_restored"] == saved["n_saved"]
        again = complete(client, prompt=whole)
        assert again["timings"]["cache_n"] == saved["n_saved"]
        assert said(again) == said(wanted)
        damaged = bytearray((tmp_path / "slots" / "king.bin").read_bytes())
        damaged[-40] ^= 1
        (tmp_path / "slots" / "king.bin").write_bytes(damaged)
        refused = act(client, 0, "restore", filename="king.bin")
        assert (refused["status"], refused["error"]["message"]) == (
            400,
            "filename: that file is damaged, or was cut short",
        )
        for name in ("../tiny.gguf", "/etc/passwd", "..", "a/b"):
            for action in ("save", "restore"):
                refused = act(client, 0, action, filename=name)
                assert refused["status"] == 400
                assert "plain name" in refused["error"]["message"]
    assert [each.name for each in (tmp_path / "slots").iterdir()] == ["king.bin"]
