"""How much of a page's true text was read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher

__all__ = ["characters_read", "true_text_read"]


def characters_read(result_lines: Sequence[str], truth: Sequence[str]) -> tuple[float, int]:
    """Count the true characters that a result holds.

    Each true line takes the result line most like it, and each result line is taken once: equal lines first, then
    the pairs from the most alike to the least. A pair counts `len(true) * ratio`, where `ratio` is
    `2 * M / (len(true) + len(read))` and `M` the characters in matching blocks (`difflib`): characters that are
    wrong, lost or invented all lower it. A true line that nothing is left for counts nothing. Order of the lines
    does not matter; spaces inside a line do.

    Args:
        result_lines: The lines read, in any order.
        truth: The lines on the page.

    Returns:
        The true characters read, and the true characters there are.
    """
    total = sum(len(line) for line in truth)
    wanted, left = Counter(truth), Counter(result_lines)
    equal = wanted & left
    read = float(sum(len(line) * times for line, times in equal.items()))
    open_lines = sorted((wanted - equal).elements())
    spare = sorted((left - equal).elements())
    pairs = [(_ratio(true, found), t, s) for t, true in enumerate(open_lines) for s, found in enumerate(spare)]
    taken_true: set[int] = set()
    taken_spare: set[int] = set()
    for ratio, t, s in sorted(pairs, key=lambda pair: (-pair[0], pair[1], pair[2])):
        if t not in taken_true and s not in taken_spare:
            taken_true.add(t)
            taken_spare.add(s)
            read += ratio * len(open_lines[t])
    return read, total


def true_text_read(result_lines: Sequence[str], truth: Sequence[str]) -> float:
    """Give the share of a page's true characters that a result holds, as `characters_read` counts them.

    Args:
        result_lines: The lines read, in any order.
        truth: The lines on the page.

    Returns:
        0.0 to 1.0; 1.0 for a page without text.
    """
    read, total = characters_read(result_lines, truth)
    return read / total if total else 1.0


def _ratio(true: str, found: str) -> float:
    return SequenceMatcher(None, true, found, autojunk=False).ratio()
