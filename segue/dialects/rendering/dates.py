"""Points in time as text."""

from datetime import UTC, datetime


def timestamp(seconds: float) -> str:
    """RFC 3339, in UTC. `seconds`: since 1970."""
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
