"""A mistake that users make, what comes of it, and how it is committed."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from tests.mistakes.worlds import Floats, World

PUT_RIGHT, REFUSED, TOLD, DONE = "put right", "refused", "told", "done"


class Seen(NamedTuple):
    """What came of it: ``numbers``, those of the ``clean`` run beside it, notes and counts, warnings, and an error.

    Warnings and the error are pairs of a class and a message; those of the command line are of class ``stderr``.
    """

    numbers: Floats | None = None
    clean: Floats | None = None
    notes: tuple[str, ...] = ()
    told: tuple[tuple[str, str], ...] = ()
    error: tuple[str, str] | None = None


Make = Callable[[World], Seen]


@dataclass(frozen=True)
class Mistake:
    """A mistake of a user.

    Attributes
    ----------
    name, group
        What the user does, and the part of the table it is in.
    make
        Commits it, through the public names or the command line.
    now
        What is done about it: ``"put right"``, the numbers are those of the clean run; ``"refused"`` by an error;
        ``"told"`` by a warning; ``"done"``, as far as can be, and counted.
    kind, words
        The class of the error or warning, and an expression that its message, or a note, matches.
    before
        What the version before these rules did.
    """

    name: str
    group: str
    make: Make
    now: str
    kind: str
    words: str
    before: str


class Group:
    """A part of the table, to which functions are added by decoration."""

    def __init__(self, title: str) -> None:
        self.title, self.mistakes = title, list[Mistake]()

    def add(self, name: str, now: str, words: str = "", *, before: str, kind: str = "") -> Callable[[Make], Make]:
        def added(make: Make) -> Make:
            self.mistakes.append(Mistake(name, self.title, make, now, kind, words, before))
            return make

        return added

    def put_right(self, name: str, *, before: str) -> Callable[[Make], Make]:
        return self.add(name, PUT_RIGHT, before=before)

    def refused(self, name: str, words: str, *, before: str, kind: str = "InputError") -> Callable[[Make], Make]:
        return self.add(name, REFUSED, words, before=before, kind=kind)

    def told(self, name: str, words: str, *, before: str, kind: str = "DataWarning") -> Callable[[Make], Make]:
        return self.add(name, TOLD, words, before=before, kind=kind)

    def done(self, name: str, words: str, *, before: str) -> Callable[[Make], Make]:
        return self.add(name, DONE, words, before=before)


@cache
def commit(mistake: Mistake) -> Seen:
    """Commit a mistake, and return what came of it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            seen = mistake.make(World.usual())
        except Exception as error:
            notes = getattr(error, "__notes__", [])
            seen = Seen(error=(type(error).__name__, " ".join([str(error), *notes])))
    told = tuple((each.category.__name__, str(each.message)) for each in caught)
    return seen._replace(told=(*seen.told, *told))


def message(mistake: Mistake, seen: Seen) -> str:
    """Return what the user reads; nothing where it was put right."""
    found = {
        PUT_RIGHT: (),
        REFUSED: (seen.error[1],) if seen.error else (),
        TOLD: tuple(words for _, words in seen.told),
        DONE: seen.notes,
    }[mistake.now]
    return next((each for each in found if re.search(mistake.words, each, re.DOTALL)), "")
