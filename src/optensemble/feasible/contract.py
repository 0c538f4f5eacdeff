"""The contract of a feasible set, tested on coefficients that are hard to get right."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats, Indices
from optensemble._core.validation import require_number
from optensemble.exceptions import InputError
from optensemble.feasible._base import FeasibleSet
from optensemble.feasible._bounds import FEASIBILITY
from optensemble.feasible._composite import Composite
from optensemble.feasible._solvers.scale import normalised
from optensemble.feasible.registry import from_spec, to_spec

_OPTIMAL = 1e-9
"""The share of the size of its terms by which a value may miss the best: what a good solver leaves."""


class Finding(NamedTuple):
    """The outcome of one rule: the rule in words; passed, failed, or (None) a note that is no failure; and the detail.

    The detail is what was found, and what to do about it; it is empty where the rule passed.
    """

    rule: str
    passed: bool | None
    detail: str

    def __str__(self) -> str:
        verdict = {True: "passed", False: "FAILED", None: "note"}[self.passed]
        return f"{verdict:6}  {self.rule}" + (f": {self.detail}" if self.detail else "")


@dataclass(frozen=True, eq=False)
class Report:
    """The findings of :func:`check`; as text, one line for each rule.

    Attributes
    ----------
    findings
        A :class:`Finding` for each rule.
    coefficients
        The rows that were tried; the findings number them.
    """

    findings: list[Finding]
    coefficients: Floats

    @property
    def ok(self) -> bool:
        """Whether no rule failed."""
        return all(finding.passed is not False for finding in self.findings)

    def __str__(self) -> str:
        return "\n".join(str(finding) for finding in self.findings)


class _Trial(NamedTuple):
    """A set, bound to the rows that it answers; these rows' numbers and coefficients; and its answers."""

    omega: FeasibleSet
    rows: Indices
    C: Floats
    actions: Floats

    @property
    def size(self) -> Floats:
        """The largest sum of terms that each row's value can have, once its largest coefficient is 1."""
        reach = np.maximum(np.abs(self.omega.lower), np.abs(self.omega.upper))
        size: Floats = np.abs(normalised(self.C)) @ reach
        return size + np.abs(self._cost(self.actions)) if self.omega.has_cost else size

    def _cost(self, actions: Floats) -> Floats:
        """Return the known cost of actions, once each row's largest coefficient is 1."""
        largest = np.abs(self.C).max(axis=1)
        with np.errstate(over="ignore"):
            return np.asarray(self.omega.cost(actions) / np.where(largest > 0, largest, 1.0))

    def solve(self, C: Floats, hint: Floats | None = None, rows: Any = slice(None)) -> Floats:
        """Solve some of the rows, all unless they are named, with other coefficients."""
        return self.omega.take(rows).argmax(C.copy(), hint)

    def value(self, actions: Floats) -> Floats:
        """Return what actions are worth, net of a known cost, once each row's largest coefficient is 1."""
        gross: Floats = (normalised(self.C) * actions).sum(axis=1)
        return gross - self._cost(actions) if self.omega.has_cost else gross

    def compare(self, actions: Floats, what: str) -> str | None:
        """Name the first row whose action differs from the first answer, to the last bit."""
        return self.first(~(actions == self.actions).all(axis=1), what)

    def first(self, wrong: npt.NDArray[np.bool_], what: str) -> str | None:
        """Name the first of the rows that are wrong, and count them; None if there is none."""
        if not wrong.any():
            return None
        i = int(wrong.argmax())
        return f"{_name_row(self.C[i], self.rows[i])} {what} ({wrong.sum()} of {len(wrong)} rows do)."


def check(omega: FeasibleSet, rows: int = 200, seed: int = 0, X: Any = None) -> Report:
    """Test a set of yours against the contract of :class:`FeasibleSet`, and report what fails.

    Nothing is printed, and no failure raises: print the report, or assert its ``ok`` in a test of yours. That actions
    are optimal is tested by comparing each with all others that the set returned: a set which misses the same actions
    for all rows passes. Rows are solved about fifteen times each.

    Parameters
    ----------
    omega
        The set: an :class:`Oracle`, or a subclass of your own.
    rows
        The number of rows of coefficients to try, roughly, at least 16: generic, tied, zero, huge and tiny ones.
    seed
        For the random coefficients.
    X
        Rows to bind the set to, where parameters of it come from the row: each is tried with some coefficients.

    Examples
    --------
    >>> from optensemble.feasible import Oracle
    >>> import numpy as np
    >>> report = check(Oracle(lambda C: np.eye(3)[C.argmin(axis=1)], dimension=3))
    >>> report.ok
    False
    >>> [finding.rule for finding in report.findings if finding.passed is False]
    ['no other action is better']
    """
    if not isinstance(omega, FeasibleSet):
        raise InputError(
            f"check takes a feasible set; got {type(omega).__name__}. Wrap a function as "
            "feasible.Oracle(function, dimension)."
        )
    if not hasattr(omega, "dimension"):
        raise InputError(
            f"{type(omega).__name__} has no dimension yet. Call self._set_bounds(lower, upper, dimension) in __init__."
        )
    require_number(rows, "rows", at_least=16, whole=True)
    C = _coefficients(omega.dimension, rows, np.random.default_rng(seed))
    trial, answers = _answers(_bound(omega, X, len(C)), C)
    findings = [answers]
    if trial is not None:
        findings += [_judge_rule(rule, advice, test, trial) for rule, advice, test in _RULES]
        findings += [_judge_note(rule, test, trial) for rule, test in _NOTES]
    return Report(findings, C)


def _bound(omega: FeasibleSet, X: Any, n: int) -> FeasibleSet:
    """Return a set bound to ``n`` rows: those of X, over and over."""
    if not omega.varies:
        return omega
    if X is None and omega.row_count is None:
        names = ", ".join(parameter.name for parameter in omega.parameters)
        raise InputError(
            f"{names} of this {type(omega).__name__} come{'s' if len(omega.parameters) == 1 else ''} from the row. "
            "Give some rows too: check(omega, X=table)."
        )
    bound = omega if X is None else omega.for_rows(X)
    if not bound.row_count:
        raise InputError("X has no rows. Give some that the set can be bound to.")
    return bound.take(np.arange(n) % bound.row_count)


def _answers(omega: FeasibleSet, C: Floats) -> tuple[_Trial | None, Finding]:
    """Solve all rows at once, or else one by one, and keep those with a finite answer for the other rules."""
    rule, rows, wrong = "every row is answered by finite numbers", np.arange(len(C)), None
    try:
        actions = np.asarray(omega.argmax(C.copy()), dtype=np.float64)
    except Exception as error:
        rows, actions, wrong = _one_by_one(omega, C)
        wrong = wrong or f"the batch of {len(C)} rows {_raised(error)}, although each row alone is answered."
    if np.shape(actions) != (len(rows), omega.dimension):
        wrong = wrong or f"argmax must return an array of shape {C.shape}; got {np.shape(actions)}."
        return None, Finding(rule, False, wrong)
    finite = np.asarray(np.isfinite(actions).all(axis=1))
    wrong = wrong or _Trial(omega, rows, C[rows], actions).first(~finite, "gets NaN or infinity")
    sound = rows[finite]
    trial = _Trial(omega.take(sound), sound, C[sound], actions[finite]) if finite.any() else None
    return trial, Finding(rule, wrong is None, wrong or "")


def _one_by_one(omega: FeasibleSet, C: Floats) -> tuple[Indices, Floats, str | None]:
    rows, actions, wrong = [], [np.empty((0, omega.dimension))], None
    for row, c in enumerate(C):
        try:
            alone = omega.take(slice(row, row + 1))
            actions.append(np.reshape(alone.argmax(c[None].copy()), (1, omega.dimension)))
            rows.append(row)
        except Exception as error:
            wrong = wrong or f"{_name_row(c, row)} {_raised(error)}."
    return np.array(rows, dtype=np.int64), np.concatenate(actions), wrong


def _judge_rule(rule: str, advice: str, test: Callable[[_Trial], str | None], trial: _Trial) -> Finding:
    try:
        wrong = test(trial)
    except Exception as error:
        wrong = f"it {_raised(error)}."
    return Finding(rule, wrong is None, "" if wrong is None else f"{wrong} {advice}")


def _judge_note(rule: str, test: Callable[[_Trial], str | None], trial: _Trial) -> Finding:
    found = _judge_rule(rule, "", test, trial)
    return found._replace(passed=found.passed or None, detail=found.detail.rstrip())


def _try_bounds(trial: _Trial) -> str | None:
    return trial.first(
        trial.omega._outside_box(trial.actions) > trial.omega.tolerance, "left the box of lower and upper"
    )


def _try_feasible(trial: _Trial) -> str | None:
    excess = trial.omega.violation(trial.actions)
    if np.shape(excess) != (len(trial.actions),):
        return f"violation() returned shape {np.shape(excess)} for {len(trial.actions)} actions."
    return trial.first(
        ~(excess <= trial.omega.tolerance), f"got an action outside the set by violation() > {FEASIBILITY:g}"
    )


def _try_alone(trial: _Trial) -> str | None:
    alone = np.concatenate([trial.solve(c[None], rows=slice(row, row + 1)) for row, c in enumerate(trial.C)])
    return trial.compare(alone, "gets another action alone than in a batch")


def _try_reversed(trial: _Trial) -> str | None:
    order = np.arange(len(trial.C))[::-1]
    return trial.compare(trial.solve(trial.C[order], rows=order)[order], "gets another action in the reversed batch")


def _try_repeated(trial: _Trial) -> str | None:
    return trial.compare(trial.solve(trial.C), "gets another action when the call is repeated")


def _try_threads(trial: _Trial) -> str | None:
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda _: trial.solve(trial.C), range(3)))
    wrong = [trial.compare(actions, "gets another action while other threads solve") for actions in found]
    return next(filter(None, wrong), None)


def _try_hints(trial: _Trial) -> str | None:
    garbage = np.random.default_rng(0).normal(size=trial.C.shape) * 1e9
    for name, hint in (("its own", trial.actions), ("another row's", trial.actions[::-1]), ("a senseless", garbage)):
        wrong = trial.compare(trial.solve(trial.C, hint.copy()), f"gets another action with {name} hint")
        if wrong:
            return wrong
    return None


def _try_overwriting(trial: _Trial) -> str | None:
    C = trial.C.copy()
    trial.omega.argmax(C)
    return trial.first((trial.C != C).any(axis=1), "had its coefficients overwritten")


def _try_no_rows(trial: _Trial) -> str | None:
    shape = np.shape(trial.solve(trial.C[:0], rows=slice(0)))
    return (
        None if shape == trial.C[:0].shape else f"no rows must give actions of shape {trial.C[:0].shape}; got {shape}."
    )


def _try_scale(trial: _Trial) -> str | None:
    if trial.omega.has_cost:  # the cost does not grow with the coefficients
        return None
    ordinary = (np.abs(trial.C).max(axis=1) < 1e200) & (np.abs(trial.C).max(axis=1) > 1e-200)
    scaled, size = normalised(trial.C), trial.size
    for factor in (1e8, 1e-8):
        actions = trial.actions.copy()
        actions[ordinary] = trial.solve(trial.C[ordinary] * factor, rows=ordinary)
        change = np.abs((scaled * (actions - trial.actions)).sum(axis=1))
        wrong = trial.first(change > _OPTIMAL * size, f"gets another value when multiplied by {factor:g}")
        if wrong:
            return wrong
    return None


def _try_optimal(trial: _Trial) -> str | None:
    omega, value = trial.omega, trial.value(trial.actions)
    excess = omega.violation(trial.actions)
    rivals = trial.actions[~(excess > omega.tolerance)]
    if not len(rivals):
        return None
    missed = np.zeros(len(value))
    for rival in np.unique(rivals, axis=0):
        everywhere = np.repeat(rival[None], len(value), axis=0)
        # In another row's set by a tolerance is not enough: a little more room may be worth far more than it.
        allowed = omega.violation(everywhere) <= excess if omega.varies else True
        gain = trial.value(everywhere) - value
        missed = np.where(allowed & np.isfinite(gain), np.maximum(missed, gain), missed)
    return trial.first(
        missed > _OPTIMAL * trial.size, f"misses up to {missed.max():.3g} of what another row's action gives"
    )


def _try_spec(trial: _Trial) -> str | None:
    spec, ours, kind = trial.omega.spec(), to_spec(trial.omega), type(trial.omega)
    if spec is None or (ours is None and isinstance(trial.omega, Composite)):  # one inside it is code
        return None
    twin = kind(**spec) if ours is None else from_spec(kind.__name__, ours)
    if twin.varies:
        twin = twin.bind(trial.omega.values, trial.omega._table_rows)
    return trial.compare(twin.argmax(trial.C.copy()), "gets another action from the set made of spec()")


def _try_noise(trial: _Trial) -> str | None:
    nudged = trial.C * (1.0 + 2e-16 * np.random.default_rng(0).choice([-1.0, 0.0, 1.0], size=trial.C.shape))
    moved = np.abs(trial.solve(nudged) - trial.actions).max(axis=1)
    return trial.first(
        moved > trial.omega.tolerance, "gets another action when the last digit of its coefficients changes"
    )


def _try_reach(trial: _Trial) -> str | None:
    omega, probed = trial.omega, np.flatnonzero((np.abs(trial.C) > 0).sum(axis=1) == 1)
    for j in np.unique(np.abs(trial.C[probed]).argmax(axis=1)):
        low, high = trial.actions[:, j].min(), trial.actions[:, j].max()
        room = max(low - omega.lower[j], omega.upper[j] - high)
        if room > 0.5 * (omega.upper[j] - omega.lower[j]) > 0:
            return (
                f"coordinate {j} stays in [{low:.3g}, {high:.3g}], and its bounds are [{omega.lower[j]:.3g}, "
                f"{omega.upper[j]:.3g}]. Buckets of actions are cut between the bounds: give tighter ones."
            )
    return None


def _try_saving(trial: _Trial) -> str | None:
    return None if trial.omega.spec() is not None else "spec() is None: give the set again when loading an ensemble."


def _try_copies(trial: _Trial) -> str | None:
    for twin in (copy.deepcopy(trial.omega), pickle.loads(pickle.dumps(trial.omega))):
        wrong = trial.compare(twin.argmax(trial.C.copy()), "gets another action from a copy")
        if wrong:
            return wrong
    return None


def _raised(error: Exception) -> str:
    return f"raised {type(error).__name__}: {error}"


def _name_row(c: Floats, row: int) -> str:
    """Return a row as a message names it: its number, and the beginning of its coefficients."""
    return f"row {row} {np.array2string(c, precision=3, threshold=6, edgeitems=3)}"


def _coefficients(d: int, rows: int, rng: np.random.Generator) -> Floats:
    """Make generic, integer (many ties), zero, constant, huge, tiny and mixed coefficients, and single coordinates."""
    generic = rng.normal(size=(rows // 2, d))
    units = np.eye(d)[_probed(d, rows)]
    return np.concatenate(
        [
            generic,
            rng.integers(-2, 3, size=(rows // 4, d)),
            np.zeros((1, d)),
            np.full((1, d), 0.1),
            -np.ones((1, d)),
            generic[:1] * 1e300,
            generic[:1] * 1e-300,
            rng.choice([-1.0, 1.0], size=(2, d)) * 10.0 ** rng.uniform(-12, 12, size=(2, d)),
            units,
            -units,
        ]
    )


def _probed(d: int, rows: int) -> Indices:
    """Return the coordinates that have rows of their own."""
    return np.unique(np.linspace(0, d - 1, num=min(d, rows // 8)).astype(np.int64))


_RULES: list[tuple[str, str, Callable[[_Trial], str | None]]] = [
    ("actions lie within the bounds", "Correct the argmax, or give the true lower and upper.", _try_bounds),
    ("actions are feasible", "Correct the argmax, or allow for its rounding in violation().", _try_feasible),
    ("no other action is better", "Check the sign (sets maximise), and the solver's tolerance.", _try_optimal),
    ("a repeated call gives the same", "Fix every seed, and keep no state between calls.", _try_repeated),
    ("a row alone is as in a batch", "Let nothing of the other rows into a row's answer: no warm start.", _try_alone),
    ("the order does not matter", "Let nothing of the row before into a row's answer: no warm start.", _try_reversed),
    ("threads do not matter", "Keep solver objects in a threading.local, or lock them.", _try_threads),
    ("hints change nothing", "A hint may save time: check that it is right before it is used.", _try_hints),
    ("coefficients are left alone", "Work on a copy.", _try_overwriting),
    ("no rows are fine", "Return an empty array of the same shape.", _try_no_rows),
    ("scale does not matter", "Divide each row by its largest magnitude before solving it.", _try_scale),
    ("spec() makes the same set", "Return every argument of the class, or None.", _try_spec),
]
_NOTES: list[tuple[str, Callable[[_Trial], str | None]]] = [
    ("the last digit does not break ties", _try_noise),
    ("the bounds are near", _try_reach),
    ("the set can be saved", _try_saving),
    ("the set can be copied and pickled", _try_copies),
]
