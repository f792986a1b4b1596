import pytest

from segue.models.context import DEFAULT_CONTEXT, context_of


@pytest.mark.parametrize(
    ("asked", "own", "context"),
    [
        (None, 512, 512),
        (None, 131_072, DEFAULT_CONTEXT),
        (None, None, DEFAULT_CONTEXT),
        (None, 0, DEFAULT_CONTEXT),
        (1024, 512, 1024),
        (131_072, 131_072, 131_072),
    ],
)
def test_what_is_asked_for_counts_else_the_models_own_up_to_a_limit(
    asked: int | None, own: int | None, context: int
) -> None:
    assert context_of(asked, own) == context
