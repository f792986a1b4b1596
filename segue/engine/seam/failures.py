"""An error as the event that ends a request, and back: so it crosses from an engine to whoever asked it."""

from segue.errors import BY_CODE, EngineFault, SegueError
from segue.types import Failed


def failed_of(error: SegueError) -> Failed:
    return Failed(error.code, error.message, error.param, error.retry_after_s, error.details)


def error_of(failed: Failed) -> SegueError:
    """A code that is not known here is a fault of the engine."""
    leaf = BY_CODE.get(failed.code, EngineFault)
    return leaf(failed.message, failed.param, failed.retry_after_s, failed.details)
