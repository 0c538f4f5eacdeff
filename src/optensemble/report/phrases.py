"""Parts of sentences: counts, lists, capital letters, and numbers on cards."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class KeyFigure:
    """A number on a card, with its title and a line of explanation."""

    title: str
    number: str
    explanation: str


def count_of(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural if need be.

    >>> count_of(1, "block"), count_of(1200, "row")
    ('1 block', '1,200 rows')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def join_words(words: Iterable[str]) -> str:
    """Return words with commas, and "and" before the last.

    >>> join_words(["A"]), join_words(["A", "B", "C"])
    ('A', 'A, B and C')
    """
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def capitalise(text: str) -> str:
    """Return a text with a capital first letter; all others stay.

    >>> capitalise("white box"), capitalise("DecisionEnsemble")
    ('White box', 'DecisionEnsemble')
    """
    return f"{text[:1].upper()}{text[1:]}"


def as_sentence(text: str) -> str:
    """Return a text with a capital first letter and a full stop; nothing of nothing.

    >>> as_sentence("nothing was found"), as_sentence("")
    ('Nothing was found.', '')
    """
    return f"{capitalise(text)}." if text else ""
