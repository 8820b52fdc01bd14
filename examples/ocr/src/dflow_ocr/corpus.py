"""Words and phrases for the generated pages, drawn from a seeded random source."""

from __future__ import annotations

import random
from typing import Final

__all__ = ["amount", "date", "heading", "item", "name", "sentence", "words"]

_WORDS: Final = (
    "about", "above", "across", "after", "against", "along", "among", "around", "because", "before", "behind", "below",
    "between", "beyond", "bridge", "bright", "broad", "build", "carry", "castle", "centre", "change", "chapter",
    "choose", "circle", "clear", "climb", "cloud", "coast", "collect", "colour", "common", "copper", "corner",
    "cotton", "country", "cover", "cross", "current", "dance", "danger", "daughter", "decide", "deliver", "depend",
    "design", "detail", "dinner", "direct", "distance", "double", "doubt", "dream", "during", "early", "earth",
    "engine", "evening", "every", "example", "explain", "family", "famous", "farther", "figure", "finger", "finish",
    "flight", "flower", "follow", "forest", "forward", "fountain", "friend", "garden", "gather", "gentle", "glass",
    "govern", "grain", "green", "ground", "harbour", "harvest", "history", "honest", "hundred", "imagine", "include",
    "increase", "inside", "island", "journey", "kitchen", "language", "laugh", "leather", "letter", "library",
    "listen", "little", "machine", "manner", "marble", "market", "measure", "memory", "message", "middle", "minute",
    "modern", "moment", "morning", "mountain", "narrow", "nature", "needle", "neighbour", "number", "object", "ocean",
    "office", "orange", "orchard", "order", "paper", "parcel", "passage", "pencil", "people", "pepper", "picture",
    "planet", "pleasant", "pocket", "present", "pressure", "produce", "promise", "public", "purple", "quarter",
    "question", "quiet", "railway", "random", "reason", "record", "region", "remember", "repeat", "report", "result",
    "return", "river", "sailor", "school", "season", "second", "secret", "service", "several", "shadow", "shelter",
    "silver", "simple", "single", "slowly", "soldier", "sound", "spring", "square", "station", "steady", "storm",
    "story", "straight", "stream", "street", "strong", "summer", "supply", "surface", "table", "teacher", "thought",
    "thread", "through", "ticket", "timber", "together", "tomorrow", "travel", "treasure", "trouble", "twelve",
    "under", "until", "valley", "value", "village", "vessel", "voice", "walnut", "water", "weather", "welcome",
    "whether", "window", "winter", "within", "without", "wonder", "wooden", "yellow", "yesterday", "the", "the", "the",
    "of", "of", "and", "and", "a", "in", "to", "is", "was",
)

_GIVEN: Final = ("Alice", "Bernard", "Clara", "Daniel", "Esther", "Frank", "Greta", "Harold", "Irene", "Julian")
_FAMILY: Final = ("Baker", "Carter", "Dalton", "Fisher", "Gardner", "Hughes", "Keller", "Mason", "Porter", "Turner")
_GOODS: Final = ("Paper", "Pencils", "Copper wire", "Oak board", "Lamp", "Paint", "Rope", "Glue", "Nails", "Canvas")
_MONTHS: Final = ("January", "March", "April", "June", "July", "August", "October", "November", "December")


def words(rng: random.Random, count: int) -> list[str]:
    """Draw plain lower-case words.

    Args:
        rng: The page's random source.
        count: How many words to draw.

    Returns:
        The words, in the order drawn.
    """
    return rng.choices(_WORDS, k=count)


def sentence(rng: random.Random) -> list[str]:
    """Make one sentence of six to fourteen words.

    Args:
        rng: The page's random source.

    Returns:
        The sentence as words; capital and punctuation are part of the words.
    """
    chosen = words(rng, rng.randint(6, 14))
    if rng.random() < 0.25:
        chosen[rng.randrange(1, len(chosen))] = str(rng.randint(2, 2999))
    if rng.random() < 0.4:
        chosen[len(chosen) // 2] += ","
    chosen[0] = chosen[0].capitalize()
    chosen[-1] += rng.choice("....?")
    return chosen


def heading(rng: random.Random) -> str:
    """Make a heading of two to four capitalised words.

    Args:
        rng: The page's random source.

    Returns:
        The heading.
    """
    return " ".join(word.capitalize() for word in words(rng, rng.randint(2, 4)))


def name(rng: random.Random) -> str:
    """Make the name of a person.

    Args:
        rng: The page's random source.

    Returns:
        A given name and a family name.
    """
    return f"{rng.choice(_GIVEN)} {rng.choice(_FAMILY)}"


def item(rng: random.Random) -> str:
    """Make the name of an article, as in a bill.

    Args:
        rng: The page's random source.

    Returns:
        The article and a number.
    """
    return f"{rng.choice(_GOODS)} {rng.randint(10, 980)}"


def amount(rng: random.Random) -> str:
    """Make an amount of money.

    Args:
        rng: The page's random source.

    Returns:
        The amount with two decimals.
    """
    return f"{rng.randint(1, 9999)}.{rng.randint(0, 99):02d}"


def date(rng: random.Random) -> str:
    """Make a date.

    Args:
        rng: The page's random source.

    Returns:
        Day, month and year.
    """
    return f"{rng.randint(1, 28)} {rng.choice(_MONTHS)} {rng.randint(1950, 2030)}"
