"""The query of all members: predictions of models, the actions these induce, and the actions of policies."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats
from optensemble._core.buckets import Buckets
from optensemble._core.progress import Step, silent
from optensemble.exceptions import AbsentWarning
from optensemble.feasible import FeasibleSet
from optensemble.members.absence import missing_rows, stand_in
from optensemble.members.alignment import OutputNames
from optensemble.members.mending import DEFAULT_MENDING, Mending, Moved, Tally
from optensemble.members.outputs import MemberOutputs
from optensemble.members.subgroups import Subgroups
from optensemble.members.validation import as_actions, as_predictions, ask_member, row_count

Members = list[tuple[str, Any]]


@dataclass(frozen=True)
class MemberQuery:
    """The members of an ensemble, and what their outputs are about: Ω, its buckets, the sense, the subgroups.

    With ``gaps`` a member may have no answer in some rows (NaN); with ``on_error="absent"`` also one that fails is
    absent in all rows it was asked about. ``absences`` are the members whose absence is an event, by number.
    ``mending`` says what is done with actions of policies outside Ω, and ``tally`` counts them.
    ``output_names`` puts what they say in the order of X and of the labels.
    """

    models: Members
    policies: Members
    omega: FeasibleSet
    buckets: Buckets
    sign: float
    subgroups: Subgroups | None = None
    mending: Mending = DEFAULT_MENDING
    tally: Tally = field(default_factory=Tally, compare=False)
    gaps: bool = False
    on_error: str = "raise"
    absences: tuple[int, ...] = ()
    output_names: OutputNames = field(default_factory=OutputNames)

    def __call__(self, X: Any, step: Step = silent, room: MemberOutputs | None = None) -> MemberOutputs:
        """Ask every member once for the rows of X, and solve every model's policy once; each member is a step.

        What they say is written into ``room``, if there is one.
        """
        omega, n = self.omega.for_rows(X), row_count(X)
        room = self.empty(n) if room is None else room
        room.omega.fill(omega)
        predictions, actions = room.predictions, room.actions
        away = dict[int, npt.NDArray[np.bool_]]()
        for number, (name, model) in enumerate(self.models):
            said, missing = self._predicted(model, name, X, omega)
            np.multiply(said, self.sign, out=predictions[number])
            if missing is None:
                actions[number] = omega.argmax(predictions[number])
            else:
                predictions[number, missing], away[number] = 0.0, missing
            step()
        mended = list[tuple[str, Moved]]()
        for number, (name, policy) in enumerate(self.policies, start=len(self.models)):
            actions[number], moved, missing = self._decided(policy, name, X, omega)
            mended.append((name, moved))
            if missing is not None:
                away[number] = missing
            step()
        self.tally.add(n, mended)
        absent = None
        if away:
            absent = np.stack([away.get(number, np.zeros(n, dtype=np.bool_)) for number in range(len(actions))])
            stand_in(predictions, actions, absent, omega)
        return self.outputs(X, predictions, actions, omega, absent)

    def _predicted(
        self, model: Any, name: str, X: Any, omega: FeasibleSet
    ) -> tuple[Floats, npt.NDArray[np.bool_] | None]:
        """Return what a model says of the rows of X, and in which of them it is absent; None if in none."""
        n, d = row_count(X), omega.dimension
        given = self.output_names(self._asked(model, name, "predict", X, omega), model, X, f"model {name!r}")
        said = as_predictions(given, name, n, d, gaps=self.gaps)
        return said, missing_rows(said) if self.gaps else None

    def _decided(
        self, policy: Any, name: str, X: Any, omega: FeasibleSet
    ) -> tuple[Floats, Moved, npt.NDArray[np.bool_] | None]:
        """Return the actions of a policy on the rows of X, those that were mended, and in which it is absent."""
        given = self.output_names(self._asked(policy, name, "decide", X, omega), policy, X, f"policy {name!r}")
        actions, moved = as_actions(given, name, row_count(X), omega, self.mending, gaps=self.gaps)
        missing = missing_rows(actions) if self.gaps else None
        if missing is not None:
            actions[missing] = 0.0
        return actions, moved, missing

    def _asked(self, member: Any, name: str, method: str, X: Any, omega: FeasibleSet) -> Any:
        """Return what a member answers; NaN if it fails, and may be absent then."""
        try:
            return ask_member(member, name, method, X)
        except Exception as error:
            if self.on_error != "absent" or not self.gaps:
                raise
            n = row_count(X)
            failed = f"{type(error).__name__}: {error}"
            warnings.warn(f"{name!r} failed on {n:,} rows and is absent there: {failed}", AbsentWarning, stacklevel=5)
            return np.full((n, omega.dimension), np.nan)

    def kept(
        self,
        X: Any,
        predictions: Floats,
        actions: Floats,
        values: Floats | None = None,
        absent: npt.NDArray[np.bool_] | None = None,
    ) -> MemberOutputs:
        """Return what members said of the rows of X earlier, with the parameters of the rows' sets, as outputs."""
        omega = self.omega if values is None else self.omega.bind_again(values, X)
        return self.outputs(X, predictions, actions, omega, absent)

    def outputs(
        self,
        X: Any,
        predictions: Floats,
        actions: Floats,
        omega: FeasibleSet,
        absent: npt.NDArray[np.bool_] | None = None,
    ) -> MemberOutputs:
        """Return what members said of the rows of X as outputs, with Ω bound to these rows, and their subgroups."""
        outputs = MemberOutputs(predictions, actions, omega, self.buckets, self.sign, absent=absent)
        if self.subgroups is not None:
            outputs = outputs.in_subgroups(self.subgroups(X), self.subgroups.titles)
        return outputs.with_absences(self.absences, self.names) if self.absences else outputs

    @property
    def names(self) -> list[str]:
        """The members' names."""
        return [name for name, _ in (*self.models, *self.policies)]

    def empty(self, n: int) -> MemberOutputs:
        """Return room for the outputs on ``n`` rows, to be filled in."""
        d, members, omega = self.omega.dimension, len(self.models) + len(self.policies), self.omega.unfilled(n)
        outputs = MemberOutputs(
            *(np.empty((len(self.models), n, d)), np.empty((members, n, d)), omega, self.buckets, self.sign)
        )
        if self.subgroups is None:
            return outputs
        parts = np.empty((len(self.subgroups.titles), n), dtype=np.int32)
        return outputs.in_subgroups(parts, self.subgroups.titles)

    def joined(self, batches: Sequence[Any], step: Step = silent) -> MemberOutputs:
        """Ask for the rows of all batches, one after the other."""
        return MemberOutputs.joined([self(X, step) for X in batches])
