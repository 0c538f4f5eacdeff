"""Terms of a report: its title, the word for a row, and what amounts are counted in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from optensemble._core.suggestions import did_you_mean
from optensemble.exceptions import InputError

LONGEST_TITLE, LONGEST_WORD = 200, 40
"""Characters at most of a title, and of a unit or currency: they stand in headings and beside numbers."""

_NO_BREAK = "\N{NO-BREAK SPACE}"
_SHORT = 4  # characters: a longer word does not fit beside a large number on a phone


@dataclass(frozen=True)
class ReportTerms:
    """What a report is called, and the words for its rows and amounts.

    Attributes
    ----------
    title
        The title of the page; by default one is made of the name of the table.
    unit
        The word for one row, in the singular: "day", "order".
    currency
        What payoffs and costs are counted in, written after an amount: "€", "minutes".

    Examples
    --------
    >>> terms = ReportTerms("Battery, Leipzig", unit="day", currency="€")
    >>> terms.count(181), terms.amount("1,204").replace(chr(160), " ")
    ('181 days', '1,204 €')
    """

    title: str = ""
    unit: str = "row"
    currency: str = ""

    def __post_init__(self) -> None:
        for name, longest in (("title", LONGEST_TITLE), ("unit", LONGEST_WORD), ("currency", LONGEST_WORD)):
            _require_text(getattr(self, name), name, longest)
        if not self.unit.strip():
            raise InputError('unit is empty. Give the word for one row, such as "day", or leave it out.')

    @property
    def units(self) -> str:
        """The word for several rows.

        >>> [ReportTerms(unit=unit).units for unit in ("day", "delivery", "batch")]
        ['days', 'deliveries', 'batches']
        """
        unit = self.unit
        if unit.endswith("y") and unit[-2:-1].lower() not in "aeiou":
            return f"{unit[:-1]}ies"
        return f"{unit}es" if unit.endswith(("s", "x", "z", "ch", "sh")) else f"{unit}s"

    def count(self, number: float) -> str:
        """Return a number of rows; rows that have weights may come to a fraction."""
        return f"{number:,.10g} {self.unit if number == 1 else self.units}"

    def amount(self, number: str) -> str:
        """Return a number, already text, with the currency after it: on the same line, if it is short.

        >>> ReportTerms(currency="minutes").amount("9,065")
        '9,065 minutes'
        """
        space = _NO_BREAK if len(self.currency) <= _SHORT else " "
        return f"{number}{space}{self.currency}" if self.currency.strip() else number

    def titled(self, quantity: str) -> str:
        """Return a quantity with what it is counted in, for an axis."""
        return f"{quantity}, {self.currency}" if self.currency.strip() else quantity

    def as_plain(self) -> dict[str, str]:
        """Return what is not by default, in JSON types."""
        return {name: value for name, value in vars(self).items() if value != getattr(type(self), name)}

    def replaced(self, **given: str | None) -> Self:
        """Return the terms with those that are given in place of these."""
        return type(self)(**(vars(self) | {name: value for name, value in given.items() if value is not None}))

    @classmethod
    def of_section(cls, section: dict[str, Any], where: str) -> Self:
        """Return the terms of a section of a job file; ``where`` is its place for errors."""
        known = tuple(cls.__dataclass_fields__)
        for name in section:
            if name not in known:
                hint = did_you_mean(name, known) or f" Known are {', '.join(known)}."
                raise InputError(f"{where} {name!r} is not known.{hint}")
        try:
            return cls(**section)
        except InputError as error:
            raise InputError(f"{where} {error}") from None


def _require_text(value: Any, name: str, longest: int) -> None:
    if not isinstance(value, str):
        raise InputError(f"{name} must be text; got {value!r}. Put it in quotes.")
    if len(value) > longest:
        raise InputError(f"{name} has {len(value):,} characters; {longest} are possible. Shorten it.")
    if any(not letter.isprintable() for letter in value):
        raise InputError(f"{name} must be one line of printable text; got {value!r}. Remove what is not.")


DEFAULT_TERMS = ReportTerms()
"""The terms of a report where none are given."""
