import pytest

from segue.distributed.lora_modules import split_modules
from segue.errors import Incompatible


def test_adapters_are_told_from_engine_arguments() -> None:
    options = ("dtype=float32", 'lora-modules={"poet": "./a", "bard": "b/c"}', "max_lora_rank=8")
    others, modules = split_modules(options)
    assert others == ("dtype=float32", "max_lora_rank=8")
    assert modules == (("poet", "./a"), ("bard", "b/c"))


@pytest.mark.parametrize("text", ["", "poet", "[1]", '{"poet": 3}', '{"": "a"}'])
def test_others_are_refused(text: str) -> None:
    with pytest.raises(Incompatible, match="lora_modules="):
        split_modules((f"lora_modules={text}",))
