"""Outcomes as figures, figures as a table and JSON. Pure."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from segue.bench.load.drive import Outcome


@dataclass(frozen=True, kw_only=True)
class Figures:
    """The figures of one server under one load. Times in milliseconds."""

    name: str
    load: str  # "8 clients", "2/s" or "512 words"
    weight: float  # the number in it
    requests: int
    failed: int
    tokens_per_second: float
    requests_per_second: float
    first_p50: float
    first_p90: float
    gap_p50: float
    gap_p90: float
    problem: str  # of the first request that failed; "" if none did

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
        problem=next((each.problem for each in outcomes if each.problem), ""),
    )


def _share(values: list[float], share: float) -> float:
    """The quantile of the values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def table(rows: Sequence[Figures]) -> str:
    width = max([14, *(len(row.name) for row in rows)])
    head = (
        f"{'':{width}}{'load':>12}{'tokens/s':>10}{'req/s':>8}{'first ms':>10}{'p90':>8}"
        f"{'gap ms':>8}{'p90':>8}  failed"
    )
    lines = [
        f"{row.name:{width}}{row.load:>12}{row.tokens_per_second:10.1f}{row.requests_per_second:8.2f}"
        f"{row.first_p50:10.0f}{row.first_p90:8.0f}{row.gap_p50:8.1f}{row.gap_p90:8.1f}  {row.failed}"
        for row in rows
    ]
    return "\n".join([head, *lines, *_ratios(rows), *_problems(rows)])


def _problems(rows: Sequence[Figures]) -> list[str]:
    """Why requests failed: of each load the first one's reason, in the server's words."""
    return [
        f"{row.failed} of {row.requests} failed at {row.load}: {row.name} {row.problem}"
        for row in rows
        if row.failed
    ]


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
