"""Which files the page is made of, and where they are served."""

from importlib.resources import files

STATIC = files("segue.server.playground") / "static"
NAMES = tuple(sorted(path.name for path in STATIC.iterdir() if path.name.count(".") == 1))

# Open without a key, so that a person can enter one; the page links to the reference, which holds nothing secret.
_REFERENCE = ("/docs", "/docs/style.css", "/openapi.json")
PUBLIC_PATHS = frozenset(
    {"/", "/play/guide.json", *(f"/play/{name}" for name in NAMES), *_REFERENCE}
)
