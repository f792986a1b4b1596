"""Names of files that clients may give: plain ones, which mean the same file on every system, in one folder."""

from segue.errors import InvalidField

_MOST_BYTES = 255
# Besides control characters. The last four pass for others somewhere: a full stop, slashes, nothing at all.
_FORBIDDEN = frozenset('/\\:*?"<>|\uff0e\u2215\u2216\ufeff\ufffd')
_OF_DEVICES = frozenset(
    ["CON", "CONIN$", "CONOUT$", "PRN", "AUX", "NUL"]
    + [f"{port}{n}" for port in ("COM", "LPT") for n in "123456789\u00b9\u00b2\u00b3"]
)


def check_name(name: str) -> None:
    """Raises InvalidField, which says what is wrong with it."""
    if wrong := _wrong(name):
        raise InvalidField(f"filename must be a plain name of a file: {wrong}", "filename")


def _wrong(name: str) -> str | None:
    if not name:
        return "there is none"
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return "it has half a character"
    if size > _MOST_BYTES:
        return f"it is longer than {_MOST_BYTES} bytes"
    if any(c < " " or "\x7f" <= c <= "\x9f" for c in name):
        return "it has a control character"
    if found := next((c for c in name if c in _FORBIDDEN), None):
        return f"it has {found!a}"
    if ".." in name or name[0] in ". " or name[-1] in ". ":
        return "it begins with a dot or a space, ends with one, or has two dots in a row"
    if name.partition(".")[0].rstrip().upper() in _OF_DEVICES:
        return "it is that of a device"
    return None
