"""The metrics of a server that is one process."""

from segue.metrics.page import Metrics


def one_process() -> Metrics:
    """Of requests whose model nobody names."""
    return Metrics(None, 0, 1, [""])
