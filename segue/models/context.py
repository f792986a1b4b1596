"""How many tokens of its context a model gets: the same in every runner, and where one is only looked at."""

DEFAULT_CONTEXT = 8192  # longer ones would leave memory for fewer sequences


def context_of(asked: int | None, own: int | None) -> int:
    """`asked`: by the operator. `own`: what the model was trained with; None or 0: its file does not say."""
    return asked or min(own or DEFAULT_CONTEXT, DEFAULT_CONTEXT)
