from pathlib import Path

from segue.models.vocabularies import difference
from tests.support.models.tiny_gguf import write_tiny_gguf


def test_the_same_tokens_and_padding_at_the_end(tmp_path: Path) -> None:
    one = write_tiny_gguf(tmp_path / "1.gguf")
    same = write_tiny_gguf(tmp_path / "2.gguf", seed=3, architecture="qwen3")
    padded = write_tiny_gguf(tmp_path / "3.gguf", control_tokens=("<pad0>", "<pad1>"))
    assert difference(one, same) is None
    assert difference(one, padded) is None
    assert difference(padded, one) is None


def test_other_tokens(tmp_path: Path) -> None:
    one = write_tiny_gguf(tmp_path / "1.gguf", control_tokens=("<a>",))
    other = write_tiny_gguf(tmp_path / "2.gguf", control_tokens=("<b>",))
    assert "other tokens" in (difference(one, other) or "")
    longer = write_tiny_gguf(
        tmp_path / "3.gguf", control_tokens=("<a>", *(f"<{i}>" for i in range(300)))
    )
    assert "the other" in (difference(one, longer) or "")
