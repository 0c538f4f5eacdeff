"""The query of all members: predictions of models, the actions these induce, and the actions of policies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from optensemble._core.arrays import Floats
from optensemble._core.buckets import Buckets
from optensemble._core.progress import Step, silent
from optensemble.feasible import FeasibleSet
from optensemble.members.alignment import OutputNames
from optensemble.members.outputs import MemberOutputs
from optensemble.members.subgroups import Subgroups
from optensemble.members.validation import as_actions, as_predictions, ask_member, row_count

Members = list[tuple[str, Any]]


@dataclass(frozen=True)
class MemberQuery:
    """The members of an ensemble, and what their outputs are about: Ω, its buckets, the sense, the subgroups.

    ``output_names`` puts what they say in the order of X and of the labels.
    """

    models: Members
    policies: Members
    omega: FeasibleSet
    buckets: Buckets
    sign: float
    subgroups: Subgroups | None = None
    output_names: OutputNames = field(default_factory=OutputNames)

    def __call__(self, X: Any, step: Step = silent, room: MemberOutputs | None = None) -> MemberOutputs:
        """Ask every member once for the rows of X, and solve every model's policy once; each member is a step.

        What they say is written into ``room``, if there is one.
        """
        omega, n, d = self.omega.for_rows(X), row_count(X), self.omega.dimension
        room = self.empty(n) if room is None else room
        room.omega.fill(omega)
        predictions, actions = room.predictions, room.actions
        for number, (name, model) in enumerate(self.models):
            answer = self.output_names(ask_member(model, name, "predict", X), model, X, f"model {name!r}")
            said = as_predictions(answer, name, n, d)
            np.multiply(said, self.sign, out=predictions[number])
            actions[number] = omega.argmax(predictions[number])
            step()
        for number, (name, policy) in enumerate(self.policies, start=len(self.models)):
            answer = self.output_names(ask_member(policy, name, "decide", X), policy, X, f"policy {name!r}")
            actions[number] = as_actions(answer, name, n, omega)
            step()
        return self.outputs(X, predictions, actions, omega)

    def kept(self, X: Any, predictions: Floats, actions: Floats, values: Floats | None = None) -> MemberOutputs:
        """Return what members said of the rows of X earlier, with the parameters of the rows' sets, as outputs."""
        omega = self.omega if values is None else self.omega.bind_again(values, X)
        return self.outputs(X, predictions, actions, omega)

    def outputs(self, X: Any, predictions: Floats, actions: Floats, omega: FeasibleSet) -> MemberOutputs:
        """Return what members said of the rows of X as outputs, with Ω bound to these rows, and their subgroups."""
        outputs = MemberOutputs(predictions, actions, omega, self.buckets, self.sign)
        if self.subgroups is None:
            return outputs
        return outputs.in_subgroups(self.subgroups(X), self.subgroups.titles)

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
