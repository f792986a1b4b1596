from pathlib import Path

import pytest

from segue.models.inventory import model_facts
from segue.models.vocabulary.fim import SPELLINGS
from segue.models.vocabulary.gguf_vocab import GgufVocab
from tests.support.models.vocabulary_files import CONTROL, VocabularyFile


@pytest.mark.parametrize("name", ["tiny", "Codestral 22B"])
@pytest.mark.parametrize(
    ("prefix", "suffix"),
    [
        *zip(SPELLINGS["prefix"], SPELLINGS["suffix"], strict=True),
        ("<[fim-prefix]>", "<[fim-suffix]>"),
        ("[PREFIX]", "[SUFFIX]"),
        ("<fim_prefix>", "<another>"),
        ("<fim_prefix> and more", "<fim_suffix> and more"),
    ],
)
def test_a_file_tells_what_its_vocabulary_finds(
    tmp_path: Path, name: str, prefix: str, suffix: str
) -> None:
    tokens = ["<unk>", "<s>", "</s>", prefix, suffix]
    path = VocabularyFile(
        "llama", tokens, [CONTROL] * len(tokens), [0.0] * len(tokens), name=name
    ).write(tmp_path / "x.gguf")
    assert model_facts(path).has_fim == (GgufVocab(path).fim is not None)
