from pathlib import Path

import pytest

from tests.support.models.tiny_gguf import byte_alphabet
from tests.support.models.vocabulary_files import (
    CONTROL,
    NORMAL,
    UNKNOWN,
    USER_DEFINED,
    Both,
    VocabularyFile,
)

BYTES = [*byte_alphabet().values()]
HARMONY = ("<|end|>", "<|return|>", "<|call|>", "<|channel|>", "<|message|>", "<|start|>")


def both(path: Path, tokens: tuple[str, ...], kind: int, **others: object) -> Both:
    kinds = [NORMAL] * len(BYTES) + [kind] * len(tokens)
    file = VocabularyFile("gpt2", [*BYTES, *tokens], kinds, merges=["a b"], **others)  # type: ignore[arg-type]
    return Both(file.write(path))


@pytest.mark.parametrize("kind", [NORMAL, CONTROL, USER_DEFINED, UNKNOWN])
@pytest.mark.parametrize(
    "tokens",
    [
        HARMONY,
        ("<|end|>", "<|calls|>", "<|flush|>"),
        ("<|end|>", "<|call|>"),
        ("</s>", "<|tool_response>", "<eos>", "<turn|>"),
        ("</s>", "<|plamo:eos|>"),
        ("<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|eom_id|>", "[EOT]", "<EOT>", "[e~["),
        ("<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>", "<PAD>", "<reponame>"),
        ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|fim_pad|>", "<|file_sep|>"),
        ("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>", "<｜end▁of▁sentence｜>"),
    ],
)
def test_roles_are_found_by_spelling(tmp_path: Path, tokens: tuple[str, ...], kind: int) -> None:
    found = both(tmp_path / "x.gguf", tokens, kind)
    found.check_facts()
    found.check("a" + "b".join(tokens) + " c")
    found.close()


@pytest.mark.parametrize(
    "values",
    [
        {"bos_token_id": 256, "eos_token_id": 257, "eot_token_id": 258, "eom_token_id": 3},
        {"fim_pre_token_id": 1, "fim_suf_token_id": 2, "prefix_token_id": 5, "fim_pad_token_id": 7},
        {"bos_token_id": 9_999, "eos_token_id": 9_999, "suffix_token_id": 9_999, "fim_rep_token_id": 4},
    ],
)  # fmt: skip
def test_the_files_own_word_comes_first(tmp_path: Path, values: dict[str, int]) -> None:
    tokens = ("<|im_end|>", "<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<|eom_id|>")
    found = both(tmp_path / "x.gguf", tokens, CONTROL, values=values)
    found.check_facts()
    found.close()


@pytest.mark.parametrize("pre", ["gpt-2", "jina-v2-code", "chatglm-bpe"])
@pytest.mark.parametrize("name", ["tiny", "Phi-3 mini", "modern-bert"])
def test_some_models_strip_the_space_beside_special_tokens(
    tmp_path: Path, name: str, pre: str
) -> None:
    tokens = ("<mask>", "[MASK]", "</s>", "<s>", "<unk>", "<|endoftext|>", "<|user|>")
    found = both(tmp_path / "x.gguf", tokens, CONTROL, name=name, pre=pre)
    found.check_facts()
    for text in ("a <mask> b", " [MASK]\n\n<s> </s> x", "<|user|> \n<|user|> <|endoftext|> ", "  "):
        found.check(text)
    found.close()
