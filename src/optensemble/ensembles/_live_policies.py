"""The policies that a LiveEnsemble follows: an ensemble as fitted, as fitted again, and an online stack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from optensemble._core.arrays import Floats
from optensemble._core.threads import one_blas_thread
from optensemble.ensembles.base import Answer, Policy
from optensemble.members.outputs import MemberOutputs
from optensemble.stacking.online_stack import OnlineStack, stack_features

FITTED, REFITTED, ONLINE = "fitted", "refitted", "online stack"


@dataclass(frozen=True, eq=False)
class Proposals:
    """What all policies propose for a batch of rows.

    Attributes
    ----------
    outputs
        What the members of the latest fit say, with Ω bound to the rows.
    actions
        Of each policy, of shape (policies, n, d).
    promised
        By each policy, of shape (policies, n), in the user's units and sense.
    features
        What the online stack learns from.
    latest
        The answer of the latest fit.
    """

    outputs: MemberOutputs
    actions: Floats
    promised: Floats
    features: Floats
    latest: Answer


def propose(fits: tuple[Policy, ...], stack: OnlineStack, X: Any) -> Proposals:
    """Have all policies propose an action for every row of X: those of the fits, the latest last, and the stack.

    Members that are the same in all fits are asked once.
    """
    first, latest = fits[0], fits[-1]
    if first is latest:
        outputs, answer = latest._look(X)
        earlier = answer.actions, answer.promised
    else:
        asked, earlier = first._propose(X)
        outputs, answer = latest._look(X, asked if latest._asks_as(first) else None)
    features = stack_features(outputs, first._label_scale)
    proposed = [earlier, (answer.actions, answer.promised)][-len(fits) :]
    actions, promised = zip(*proposed, _stacked(stack, features, outputs, answer), strict=True)
    return Proposals(outputs, np.array(actions), np.array(promised), features, answer)


def _stacked(stack: OnlineStack, features: Floats, outputs: MemberOutputs, latest: Answer) -> tuple[Floats, Floats]:
    """Return what the online stack does and promises; while it knows nothing, what the latest fit does."""
    if not (stack.begun or stack.models):
        return latest.actions, latest.promised
    coefficients, omega = stack(features), outputs.omega
    with one_blas_thread():
        actions = omega.argmax(coefficients)
    return actions, outputs.sign * omega.value(actions, coefficients)
