"""Outcomes as figures, figures as a table, a plot and JSON. Pure."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from segue.bench.load.drive import Outcome


@dataclass(frozen=True, kw_only=True)
class Figures:
    """The figures of one server under one load. Times in milliseconds."""

    name: str
    load: str  # "8 clients" or "2/s"
    weight: float  # the number in it
    requests: int
    failed: int
    tokens_per_second: float
    requests_per_second: float
    first_p50: float
    first_p90: float
    gap_p50: float
    gap_p90: float

    def as_json(self) -> dict[str, Any]:
        return {
            key: round(value, 3) if isinstance(value, float) else value
            for key, value in asdict(self).items()
        }


def figures(name: str, load: str, weight: float, outcomes: Sequence[Outcome]) -> Figures:
    well = [each for each in outcomes if not each.problem]
    begun = min((each.sent_at for each in outcomes), default=0.0)
    span = max((each.sent_at + each.total_s for each in outcomes), default=0.0) - begun
    firsts, gaps = [each.first_s for each in well], [each.gap_s for each in well]
    return Figures(
        name=name,
        load=load,
        weight=weight,
        requests=len(outcomes),
        failed=len(outcomes) - len(well),
        tokens_per_second=sum(each.num_tokens for each in well) / span if span else 0.0,
        requests_per_second=len(well) / span if span else 0.0,
        first_p50=_share(firsts, 0.5) * 1000,
        first_p90=_share(firsts, 0.9) * 1000,
        gap_p50=_share(gaps, 0.5) * 1000,
        gap_p90=_share(gaps, 0.9) * 1000,
    )


def _share(values: list[float], share: float) -> float:
    """The quantile of the values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def table(rows: Sequence[Figures]) -> str:
    head = f"{'':14}{'load':>12}{'tokens/s':>10}{'req/s':>8}{'first ms':>10}{'p90':>8}{'gap ms':>8}{'p90':>8}  failed"
    lines = [
        f"{row.name[:14]:14}{row.load:>12}{row.tokens_per_second:10.1f}{row.requests_per_second:8.2f}"
        f"{row.first_p50:10.0f}{row.first_p90:8.0f}{row.gap_p50:8.1f}{row.gap_p90:8.1f}  {row.failed}"
        for row in rows
    ]
    return "\n".join([head, *lines, *_ratios(rows)])


def _ratios(rows: Sequence[Figures]) -> list[str]:
    names = list(dict.fromkeys(row.name for row in rows))
    if len(names) != 2:
        return []
    ours, theirs = ({row.load: row for row in rows if row.name == name} for name in names)
    return [
        f"{names[0]} / {names[1]} at {load}: {ours[load].tokens_per_second / theirs[load].tokens_per_second:.2f}"
        for load in ours
        if load in theirs and theirs[load].tokens_per_second
    ]


# --- the plot ------------------------------------------------------------------------------------

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 640, 360, 64, 44
_COLOURS = ("#1f6f6b", "#d9730d", "#5b46a8", "#777777")


def svg(rows: Sequence[Figures], unit: str) -> str:
    """A plot of tokens per second over load, one line per server."""
    names = list(dict.fromkeys(row.name for row in rows))
    loads = sorted({row.weight for row in rows})
    top = max((row.tokens_per_second for row in rows), default=1.0) * 1.1 or 1.0
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="system-ui, sans-serif" '
        'font-size="13"><rect width="100%" height="100%" fill="#ffffff"/>'
    ]
    for step in range(5):
        value = top * step / 4
        y = _y(value, top)
        parts.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH - 20}" y1="{y:.1f}" y2="{y:.1f}" stroke="#dddddd"/>'
            f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end" fill="#444444">{value:.0f}</text>'
        )
    for load in loads:
        x = _x(load, loads)
        parts.append(
            f'<text x="{x:.1f}" y="{_HEIGHT - 24}" text-anchor="middle" fill="#444444">{load:g}</text>'
        )
    parts.append(
        f'<text x="{_WIDTH / 2}" y="{_HEIGHT - 6}" text-anchor="middle" fill="#444444">{unit}</text>'
        f'<text x="{_LEFT}" y="16" fill="#444444">tokens a second</text>'
    )
    for index, name in enumerate(names):
        parts.append(_line(index, name, [row for row in rows if row.name == name], loads, top))
    return "".join(parts) + "</svg>\n"


def _line(index: int, name: str, rows: list[Figures], loads: list[float], top: float) -> str:
    colour = _COLOURS[index % len(_COLOURS)]
    points = [(_x(row.weight, loads), _y(row.tokens_per_second, top)) for row in rows]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dots = "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in points
    )
    label = _escaped(name)
    return (
        f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>{dots}'
        f'<text x="{_LEFT + 14}" y="{36 + 18 * index}" fill="{colour}">{label}</text>'
    )


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")


def _x(load: float, loads: list[float]) -> float:
    """Loads stand at equal distances: they mostly double."""
    return _LEFT + 20 + (_WIDTH - _LEFT - 60) * loads.index(load) / max(1, len(loads) - 1)


def _y(value: float, top: float) -> float:
    return _HEIGHT - _BOTTOM - (_HEIGHT - _BOTTOM - 24) * value / top
