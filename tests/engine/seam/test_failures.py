import pytest

from segue.engine.seam import error_of, failed_of
from segue.errors import BY_CODE, EngineFault, SegueError
from segue.types import Failed


@pytest.mark.parametrize("leaf", BY_CODE.values())
def test_an_error_comes_back_as_it_was(leaf: type[SegueError]) -> None:
    sent = leaf("too long", "prompt", 1.5, {"n_ctx": 8})
    back = error_of(failed_of(sent))
    assert type(back) is leaf
    assert vars(back) == vars(sent)


def test_a_code_that_is_not_known_is_a_fault_of_the_engine() -> None:
    assert type(error_of(Failed("code_of_a_later_version", "?"))) is EngineFault
