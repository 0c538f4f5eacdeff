"""An alarm: since when, and which way, payoffs are off what was promised."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Alarm:
    """An alarm of a :class:`~optensemble.Monitor`. Rows are numbered from 0, in the order in which they were observed.

    Attributes
    ----------
    row
        The row that raised it.
    onset
        The row at which the change began, roughly.
    direction
        ``"less"`` or ``"more"``: which way realised payoffs are off.
    kind
        ``"drifted"``: off on average by more than the tolerance; ``"broken"``: by more than the promise allows for.
    evidence
        How often more likely than without a change the rows are, summed over all rows at which it may have begun.
    since
        The first row that was looked at for it: that of the last restart.

    Examples
    --------
    >>> Alarm(1043, 1012, "less", "drifted", 2.1e5, 0).sentence("max")
    'earned less than promised since about row 1,012 (alarm at row 1,043)'
    """

    row: int
    onset: int
    direction: str
    kind: str
    evidence: float
    since: int

    def sentence(self, sense: str = "max", *, of: str = "", doubt: str = "") -> str:
        """Return the alarm in words, for payoffs (``"max"``) or costs (``"min"``).

        ``of`` says which rows are numbered, ``doubt`` how sure it is.
        """
        verb = "earned" if sense == "max" else "cost"
        what = "promised" if self.kind == "drifted" else "the promise allows for"
        rows, raised = f"row {self.onset:,}{of and f' {of}'}", f"alarm at row {self.row:,}{doubt and f'; {doubt}'}"
        return f"{verb} {self.direction} than {what} since about {rows} ({raised})"
