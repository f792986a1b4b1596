"""Figures as a plot in SVG: tokens per second over load, and what a token costs over the length of the prompt. Pure."""

from collections.abc import Mapping, Sequence

from segue.bench.load.report import Figures

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 640, 360, 64, 44
_COLOURS = ("#1f6f6b", "#d9730d", "#5b46a8", "#777777")

Line = Sequence[tuple[float, float]]


def throughput(rows: Sequence[Figures], unit: str) -> str:
    """Tokens per second over load, one line per server."""
    names = dict.fromkeys(row.name for row in rows)
    lines = {
        name: [(row.weight, row.tokens_per_second) for row in rows if row.name == name]
        for name in names
    }
    return plot(lines, unit, "tokens per second")


def cost(rows: Sequence[Figures]) -> str:
    """Milliseconds over the length of the prompt, two lines per server: an answer's token and a prompt's word."""
    lines: dict[str, Line] = {}
    for name in dict.fromkeys(row.name for row in rows):
        own = [row for row in rows if row.name == name]
        lines[f"{name}: a token of the answer"] = [(row.weight, row.gap_p50) for row in own]
        lines[f"{name}: a word of the prompt"] = [
            (row.weight, row.first_p50 / row.weight) for row in own
        ]
    return plot(lines, "words of prompt", "milliseconds")


def plot(lines: Mapping[str, Line], unit: str, measure: str) -> str:
    places = sorted({x for line in lines.values() for x, _ in line})
    top = max((y for line in lines.values() for _, y in line), default=1.0) * 1.1 or 1.0
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="system-ui, sans-serif" '
        'font-size="13"><rect width="100%" height="100%" fill="#ffffff"/>'
    ]
    digits = 0 if top >= 20 else 1
    for step in range(5):
        value = top * step / 4
        y = _y(value, top)
        parts.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH - 20}" y1="{y:.1f}" y2="{y:.1f}" stroke="#dddddd"/>'
            f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end" fill="#444444">{value:.{digits}f}</text>'
        )
    for place in places:
        x = _x(place, places)
        parts.append(
            f'<text x="{x:.1f}" y="{_HEIGHT - 24}" text-anchor="middle" fill="#444444">{place:g}</text>'
        )
    parts.append(
        f'<text x="{_WIDTH / 2}" y="{_HEIGHT - 6}" text-anchor="middle" fill="#444444">{unit}</text>'
        f'<text x="{_LEFT}" y="16" fill="#444444">{measure}</text>'
    )
    for index, (name, line) in enumerate(lines.items()):
        points = [(_x(x, places), _y(y, top)) for x, y in line]
        parts.append(_line(index, name, points))
    return "".join(parts) + "</svg>\n"


def _line(index: int, name: str, points: Line) -> str:
    colour = _COLOURS[index % len(_COLOURS)]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dots = "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in points
    )
    return (
        f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>{dots}'
        f'<text x="{_LEFT + 14}" y="{36 + 18 * index}" fill="{colour}">{_escaped(name)}</text>'
    )


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")


def _x(place: float, places: list[float]) -> float:
    """At equal distances: loads and lengths mostly double."""
    return _LEFT + 20 + (_WIDTH - _LEFT - 60) * places.index(place) / max(1, len(places) - 1)


def _y(value: float, top: float) -> float:
    return _HEIGHT - _BOTTOM - (_HEIGHT - _BOTTOM - 24) * value / top
