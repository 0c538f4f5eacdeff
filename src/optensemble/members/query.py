"""The query of all members: predictions of models, the actions these induce, and the actions of policies."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats
from optensemble._core.buckets import Buckets
from optensemble._core.columns import Columns
from optensemble._core.progress import Step, silent
from optensemble.exceptions import AbsentWarning
from optensemble.feasible import FeasibleSet
from optensemble.members.absence import missing_rows, solve_members
from optensemble.members.alignment import OutputNames, only_columns
from optensemble.members.context import Context
from optensemble.members.mending import DEFAULT_MENDING, Mending, Moved, Tally
from optensemble.members.number_table import NumberTable
from optensemble.members.outputs import MemberOutputs
from optensemble.members.read_together import read_together
from optensemble.members.row_contents import row_contents
from optensemble.members.subgroups import Subgroups
from optensemble.members.validation import as_actions, as_predictions, ask_member, is_plain, row_count

Members = list[tuple[str, Any]]


class _Said(NamedTuple):
    """What members have said already of rows, by name; of those that are ``plain`` there is nothing left to check.

    If all models are, ``models`` is what they say, of shape (models, n, d), where it lies in X.
    """

    by_name: Mapping[str, Floats]
    plain: frozenset[str] = frozenset()
    models: Floats | None = None


@dataclass(frozen=True)
class MemberQuery:
    """The members of an ensemble, and what their outputs are about: Ω, its buckets, the sense, the subgroups.

    With ``gaps`` a member may have no answer in some rows (NaN); with ``on_error="absent"`` also one that fails is
    absent in all rows it was asked about. ``absences`` are the members whose absence is an event, by number.
    ``mending`` says what is done with actions of policies outside Ω, and ``tally`` counts them.
    ``output_names`` puts what they say in the order of X and of the labels. ``fitted_here`` are the members that were
    fitted with the ensemble, which see no other columns of X than its ``features``, if these have names; ``context``
    finds the columns that a forecast may look at.
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
    fitted_here: frozenset[str] = frozenset()
    features: Sequence[str] | None = None
    context: Context | None = None

    def __call__(
        self,
        X: Any,
        step: Step = silent,
        room: MemberOutputs | None = None,
        said: Mapping[str, Floats] | None = None,
    ) -> MemberOutputs:
        """Ask every member once for the rows of X, and solve every model's policy once; each member is a step.

        What they say is written into ``room``, if there is one. Members that have ``said`` something of these rows
        already, by name, are not asked: out of fold they were.
        """
        return solve_members(self.ask(X, step, room, said), step)

    def ask(
        self,
        X: Any,
        step: Step = silent,
        room: MemberOutputs | None = None,
        said: Mapping[str, Floats] | None = None,
        *,
        copies: bool = True,
    ) -> MemberOutputs:
        """Ask every member once for the rows of X, and leave the models' actions unsolved; a policy is a step.

        The predictions of models are 0 in rows in which they are absent; see
        :func:`~optensemble.members.absence.solve_members`. Without ``copies`` they may lie in X, and must not be
        written to.
        """
        read = self._read_together(X, said or {})
        if isinstance(X, NumberTable) and (len(read.plain) < len(self.names) or self._looks_further):
            X = X.to_pandas()
        omega, n = self.omega.for_rows(X), row_count(X)
        room = self.empty(n) if room is None else room
        room.omega.fill(omega)
        predictions, actions = room.predictions, room.actions
        away: dict[int, npt.NDArray[np.bool_]] = {}
        to_read = self.models
        if read.models is not None and not copies and self.sign == 1.0:
            predictions, to_read = read.models, []
        for number, (name, model) in enumerate(to_read):
            values, missing = self._predicted(model, name, X, omega, read)
            np.multiply(values, self.sign, out=predictions[number])
            if missing is not None:
                predictions[number, missing], away[number] = 0.0, missing
        mended: list[tuple[str, Moved]] = []
        for number, (name, policy) in enumerate(self.policies, start=len(self.models)):
            actions[number], moved, missing = self._decided(policy, name, X, omega, read)
            mended.append((name, moved))
            if missing is not None:
                away[number] = missing
            step()
        self.tally.add(n, mended)
        absent = None
        if away:
            absent = np.stack([away.get(number, np.zeros(n, dtype=np.bool_)) for number in range(len(actions))])
        return self.outputs(X, predictions, actions, omega, absent, room.context)

    @property
    def _looks_further(self) -> bool:
        """Whether more is read of X than members' columns."""
        return self.omega.varies or self.subgroups is not None or self.context is not None

    def _read_together(self, X: Any, said: Mapping[str, Floats]) -> _Said:
        """Return what members said already, and what those say that are columns of X, if they can be read at once."""
        members = {
            name: (f"{kind} {name!r}", member)
            for kind, named in (("model", self.models), ("policy", self.policies))
            for name, member in named
            if type(member) is Columns and name not in said and name not in self.fitted_here
        }
        if not members:
            return _Said(said)
        alone, d = len(members) == len(self.names), self.omega.dimension
        read = read_together(list(members.values()), X, d, self.output_names, all_members=alone)
        if read is None:
            return _Said(said)
        columns = {name: read[:, number] for number, name in enumerate(members)}
        if not is_plain(read):
            return _Said({**said, **columns})
        models = read[:, : len(self.models)].transpose(1, 0, 2) if all(n in columns for n, _ in self.models) else None
        return _Said({**said, **columns}, frozenset(columns), models)

    def _predicted(
        self, model: Any, name: str, X: Any, omega: FeasibleSet, said: _Said
    ) -> tuple[Floats, npt.NDArray[np.bool_] | None]:
        """Return what a model says of the rows of X, and in which of them it is absent; None if in none."""
        if name in said.plain:
            return said.by_name[name], None
        n, d = row_count(X), omega.dimension
        given = said.by_name[name] if name in said.by_name else self._answered(model, name, "predict", X, omega)
        predicted = as_predictions(given, name, n, d, gaps=self.gaps)
        return predicted, missing_rows(predicted) if self.gaps else None

    def _decided(
        self, policy: Any, name: str, X: Any, omega: FeasibleSet, said: _Said
    ) -> tuple[Floats, Moved, npt.NDArray[np.bool_] | None]:
        """Return the actions of a policy on the rows of X, those that were mended, and in which it is absent."""
        given = said.by_name[name] if name in said.by_name else self._answered(policy, name, "decide", X, omega)
        actions, moved = as_actions(given, name, row_count(X), omega, self.mending, gaps=self.gaps)
        missing = missing_rows(actions) if self.gaps else None
        if missing is not None:
            actions[missing] = 0.0
        return actions, moved, missing

    def _answered(self, member: Any, name: str, method: str, X: Any, omega: FeasibleSet) -> Any:
        """Return the answer of a member in the order of X and of the labels."""
        X = self._seen_by(name, X)
        kind = "model" if method == "predict" else "policy"
        return self.output_names(self._asked(member, name, method, X, omega), member, X, f"{kind} {name!r}")

    def _seen_by(self, name: str, X: Any) -> Any:
        """Return X as a member sees it: one that was fitted here, without columns that X did not have then."""
        return only_columns(X, self.features) if name in self.fitted_here else X

    def _asked(self, member: Any, name: str, method: str, X: Any, omega: FeasibleSet) -> Any:
        """Return what a member answers; NaN if it fails, and may be absent then."""
        try:
            return ask_member(member, name, method, X)
        except Exception as error:
            if self.on_error != "absent" or not self.gaps:
                raise
            n = row_count(X)
            failed = f"{type(error).__name__}: {error}"
            warnings.warn(f"{name!r} failed on {n:,} rows and is absent there: {failed}", AbsentWarning, stacklevel=6)
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
        room: Floats | None = None,
    ) -> MemberOutputs:
        """Return what members said of the rows of X as outputs, with Ω bound to these rows, and their subgroups.

        Their context is written into ``room``, if there is one.
        """
        outputs = MemberOutputs(predictions, actions, omega, self.buckets, self.sign, absent=absent)
        if self.subgroups is not None:
            outputs = outputs.in_subgroups(self.subgroups(X), self.subgroups.titles)
        if self.fitted_here:
            outputs = replace(outputs, contents=row_contents(only_columns(X, self.features)))
        if self.context is not None:
            outputs = replace(outputs, context=self.context(X, room))
        return outputs.with_absences(self.absences, self.names) if self.absences else outputs

    @property
    def names(self) -> list[str]:
        """The members' names."""
        return [name for name, _ in (*self.models, *self.policies)]

    def empty(self, n: int) -> MemberOutputs:
        """Return room for the outputs on ``n`` rows, to be filled in."""
        d, members, omega = self.omega.dimension, len(self.models) + len(self.policies), self.omega.unfilled(n)
        outputs = MemberOutputs(
            *(np.empty((len(self.models), n, d)), np.empty((members, n, d)), omega, self.buckets, self.sign),
            context=None if self.context is None else np.empty((n, len(self.context.columns))),
        )
        if self.subgroups is None:
            return outputs
        parts = np.empty((len(self.subgroups.titles), n), dtype=np.int32)
        return outputs.in_subgroups(parts, self.subgroups.titles)

    def joined(
        self, batches: Sequence[Any], step: Step = silent, said: Mapping[str, Floats] | None = None
    ) -> MemberOutputs:
        """Ask for the rows of all batches, one after the other; ``said`` is of all rows."""
        found, start = list[MemberOutputs](), 0
        for X in batches:
            stop = start + row_count(X)
            own = None if said is None else {name: each[start:stop] for name, each in said.items()}
            found.append(self(X, step, said=own))
            start = stop
        return MemberOutputs.joined(found)
