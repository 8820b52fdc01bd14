"""Names of logical devices, and lists of them as deploy files write them (config-and-options.md section 4.3).

A name is `cluster:server:device:die`. Three numbers get `:0` behind them, two (from an option only) `0:0:` in front.
Device -1 is the CPU of the server itself.
"""

from __future__ import annotations

import itertools
import re

MAX_IDS = 65535
_HIGHEST = 32767
_ID = re.compile(r"\d{1,5}:\d{1,5}:(?:\d{1,5}|-1)(?::\d{1,5})?")
_SEGMENT = re.compile(r"(\d{1,5})(?:~(\d{1,5}))?")
_FORM = "cluster:server:device, such as 0:0:0, or with :die behind it"


def parse_device_list(text: str) -> list[str]:
    """The logical devices that a list names, in its order; repetitions stay.

    Args:
        text: Names separated by commas; each number of a name may be a range `n~m`.

    Raises:
        ValueError: it is no such list; the text says which part and why.
    """
    if not text.strip():
        raise ValueError(f"expected logical devices, got an empty text; they are written {_FORM}")
    items = text.split(",")
    if "~" not in text:
        for item in items:
            if not _ID.fullmatch(item):
                raise ValueError(_why_not(item))
        return [_full(item) for item in items]
    return [name for item in items for name in _ranged(item)]


def parse_device_ids(text: str) -> list[str]:
    """The logical devices of `logic_device_id`: in brackets or not, with blanks or not, no ranges.

    Raises:
        ValueError: it is no such list.
    """
    if "~" in text:
        raise ValueError(f"{text!r} has a range, which is possible in logic_device_list only")
    return parse_device_list(re.sub(r"[\s\[\]]", "", text))


def parse_device_option(text: str) -> list[str]:
    """The logical devices of an option: as for `parse_device_ids`, but two numbers are a device of this machine.

    Raises:
        ValueError: it is no such list.
    """
    short = re.compile(r"[\s\[]*\d{1,5}:\d{1,5}[\s\]]*")
    return parse_device_ids(",".join(f"0:0:{item}" if short.fullmatch(item) else item for item in text.split(",")))


def in_order(names: list[str]) -> list[str]:
    """Names sorted by their numbers, cluster first."""
    return sorted(names, key=lambda name: [int(number) for number in name.split(":")])


def _ranged(item: str) -> list[str]:
    segments = item.split(":")
    if len(segments) not in (3, 4):
        raise ValueError(_why_not(item))
    choices: list[list[str]] = []
    count = 1
    for position, segment in enumerate(segments):
        if segment == "-1" and position == 2:
            choices.append([segment])
            continue
        found = _SEGMENT.fullmatch(segment)
        if found is None:
            raise ValueError(_why_not(item))
        first, last = int(found[1]), int(found[2] or found[1])
        if first > last:
            raise ValueError(f"the range {segment!r} in {item!r} ends below its begin; write {last}~{first}")
        if found[2] and last > _HIGHEST:
            raise ValueError(f"the range {segment!r} in {item!r} goes above {_HIGHEST}")
        count *= last - first + 1
        if count > MAX_IDS:
            raise ValueError(f"{item!r} names more than {MAX_IDS} devices")
        choices.append([str(number) for number in range(first, last + 1)])
    return [_full(":".join(parts)) for parts in itertools.product(*choices)]


def _full(name: str) -> str:
    """Four numbers without zeros in front."""
    numbers = [str(int(number)) for number in name.split(":")]
    return ":".join([*numbers, "0"] if len(numbers) == 3 else numbers)


def _why_not(item: str) -> str:
    if item != item.strip():
        return f"{item!r} has blanks around it; a list has none"
    if re.fullmatch(r"[\d:~\-\s]*-[\d:~\-\s]*", item) and "-1" not in item.split(":"):
        return f"{item!r} is no logical device; a range is written with ~, such as 0~3"
    return f"{item!r} is no logical device; one is written {_FORM}"
