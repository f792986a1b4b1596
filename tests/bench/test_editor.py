from pathlib import Path

import gguf

from segue.bench.editor import OWN_METRICS, SESSIONS, Typist, replay, with_metadata
from segue.bench.harness import wire
from segue.bench.harness.served import served
from segue.runners.llama.runner import LlamaVocab
from tests.support.models.tiny_gguf import write_tiny_gguf

CONTROLS = ("<jupyter_start>", "<jupyter_text>", "<jupyter_code>")


def test_a_copy_names_its_fim_tokens_and_is_the_same_model(tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "x.gguf", fim=False, control_tokens=CONTROLS)
    plain = LlamaVocab(path)
    assert plain.fim is None
    ids = [plain.tokenize(text, False, True)[0] for text in CONTROLS]
    names = [f"tokenizer.ggml.fim_{part}_token_id" for part in ("pre", "suf", "mid")]
    copy = tmp_path / "copy.gguf"
    copy.write_bytes(with_metadata(path.read_bytes(), dict(zip(names, ids, strict=True))))
    fim = LlamaVocab(copy).fim
    assert fim is not None
    assert [fim.prefix, fim.suffix, fim.middle] == ids
    old, new = (gguf.GGUFReader(each).tensors for each in (path, copy))
    assert [each.name for each in old] == [each.name for each in new]
    assert all((a.data == b.data).all() for a, b in zip(old, new, strict=True))


def test_a_session_leaves_nothing_behind() -> None:
    above = "".join(f"x{i} = {i}\n" for i in range(40))
    strokes = [(f"{above}y = {'1' * size}", "\nprint(y)\n" * 9) for size in range(1, 13)]
    with served("--runner", "fake") as server:
        typist = Typist(server.host, server.port, SESSIONS["infill"], OWN_METRICS)
        figures = wire.run(replay({"segue": typist}, strokes, burst=4, interval_s=0.02))["segue"]
    assert figures["requests"] == len(strokes)
    # One that is dropped before the server has read it is not counted; the last of each burst is waited for.
    assert 3 <= figures["cancelled"] + figures["finished"] <= len(strokes)
    assert figures["slots_used"] == 0
    assert figures["prefilled_a_request"] < 10
    assert len(typist.waits) == 3
