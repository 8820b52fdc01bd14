"""The figures as Markdown: medians with their spread, and dflow against the best of the others and the limit."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

IN_PLACE, COPY_IN = "dflow in place", "dflow copy in"


@dataclass
class Row:
    """One figure of one round.

    Args:
        test: Which block.
        size: Bytes a message.
        line: What carried it.
        metric: What was measured, with its unit.
        value: The figure.
    """

    test: str
    size: int
    line: str
    metric: str
    value: float


class Block:
    """All figures of one test and metric."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.more_is_better = rows[0].metric.endswith("/s")
        self.sizes = sorted({row.size for row in rows})
        self.lines = list(dict.fromkeys(row.line for row in rows))
        self.values: dict[tuple[str, int], list[float]] = defaultdict(list)
        for row in rows:
            self.values[row.line, row.size].append(row.value)

    def median(self, line: str, size: int) -> float | None:
        values = self.values.get((line, size))
        return statistics.median(values) if values else None

    def cell(self, line: str, size: int) -> str:
        values = self.values.get((line, size))
        if not values:
            return ""
        if len(values) == 1:
            return number(values[0])
        return f"{number(statistics.median(values))} ({number(min(values))}..{number(max(values))})"

    def best(self, lines: Sequence[str], size: int) -> str | None:
        known = [line for line in lines if self.median(line, size) is not None]
        pick = max if self.more_is_better else min
        return pick(known, key=lambda line: self.median(line, size) or 0.0) if known else None

    def ratio(self, line: str, other: str | None, size: int) -> str:
        """How many times better `line` is."""
        a, b = self.median(line, size), self.median(other, size) if other else None
        if not a or not b:
            return ""
        return f"{a / b if self.more_is_better else b / a:.2f} ({other})"


def number(value: float) -> str:
    """Three figures are enough for small numbers, thousands get commas."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def limit_for(line: str, limits: Sequence[str]) -> list[str]:
    """The limit that does the same: copies in, or does not spin."""
    for variant in ("copy in", "no spin"):
        if variant in line:
            return [limit for limit in limits if variant in limit]
    return list(limits[:1])


def block_text(title: str, block: Block, copying: Collection[str]) -> list[str]:
    """One table; what copies in is held against those that copy too."""
    text = [f"\n| {title} | " + " | ".join(f"{size:,} B" for size in block.sizes) + " |",
            "|---|" + "---:|" * len(block.sizes)]
    text += [f"| {line} | " + " | ".join(block.cell(line, size) for size in block.sizes) + " |" for line in block.lines]
    mine = [line for line in block.lines if line.startswith("dflow")]
    limits = [line for line in block.lines if line.startswith("limit")]
    others = [line for line in block.lines if line not in mine and line not in limits]
    for line in mine:
        rivals = [other for other in others if other in copying] if COPY_IN in line else others
        for what, against in (("best other", rivals), ("limit", limit_for(line, limits))):
            cells = [block.ratio(line, block.best(against, size), size) for size in block.sizes]
            if any(cells):
                text.append(f"| *{line} / {what}* | " + " | ".join(cells) + " |")
    for limit in [line for line in limits if "memcpy" in line and COPY_IN in mine]:
        cells = [block.ratio(COPY_IN, limit, size) for size in block.sizes]
        text.append(f"| *{COPY_IN} / {limit[7:]}* | " + " | ".join(cells) + " |")
    if IN_PLACE in mine and len(block.sizes) > 1 and block.more_is_better:
        medians = [m for size in block.sizes if (m := block.median(IN_PLACE, size))]
        text.append(f"\n{IN_PLACE}: the fastest size is {max(medians) / min(medians):.2f} times the slowest.")
    return text


def report(rows: Sequence[Row], copying: Collection[str]) -> str:
    """Every block; ratios above 1 are in favour of the row that is named first."""
    blocks: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        blocks[row.test, row.metric].append(row)
    text = ["medians (lowest..highest); a ratio above 1 speaks for the row named first"]
    for (test, metric), found in blocks.items():
        text += block_text(f"{test}, {metric}", Block(found), copying)
    return "\n".join(text)
