"""An alarm: when, and in which direction, realised payoffs departed from those promised."""

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
        An estimate of the row at which the change began.
    direction
        ``"less"`` or ``"more"``: the direction in which realised payoffs departed.
    kind
        ``"drifted"``: the mean error exceeds the tolerance; ``"broken"``: it exceeds the promise's half-width.
    evidence
        The evidence at that row; see :class:`~optensemble.Monitor`.
    since
        The row at which the evidence was last reset.

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
