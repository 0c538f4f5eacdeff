"""Does a set keep the contract? Tried on coefficients that are hard to get right."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats, Indices
from optensemble._core.validation import require_number
from optensemble.exceptions import InputError
from optensemble.feasible._base import FEASIBILITY, FeasibleSet
from optensemble.feasible._solvers.scale import normalised
from optensemble.feasible.registry import from_spec, to_spec

_OPTIMAL = 1e-9
"""How much a value may miss the best, relative to the size of its terms."""


class Finding(NamedTuple):
    """What came of one rule: passed, failed, or (None) a note that is no failure."""

    rule: str
    passed: bool | None
    detail: str

    def __str__(self) -> str:
        verdict = {True: "passed", False: "FAILED", None: "note"}[self.passed]
        return f"{verdict:6}  {self.rule}" + (f": {self.detail}" if self.detail else "")


@dataclass(frozen=True, eq=False)
class Report:
    """What :func:`check` found; as text, one line for each rule.

    Attributes
    ----------
    findings
        For each rule its name, whether it passed (None for a note that is no failure), and what was found.
    coefficients
        The rows that were tried, under the numbers that the findings use.
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
    """A set, the rows that it answers (their numbers and their coefficients), and its answers."""

    omega: FeasibleSet
    rows: Indices
    C: Floats
    actions: Floats

    @property
    def size(self) -> Floats:
        """How large the terms of each row's value can be, once its largest coefficient is 1."""
        reach = np.maximum(np.abs(self.omega.lower), np.abs(self.omega.upper))
        size: Floats = np.abs(normalised(self.C)) @ reach
        return size

    def solve(self, C: Floats, hint: Floats | None = None) -> Floats:
        return self.omega.argmax(C.copy(), hint)

    def compare(self, actions: Floats, what: str) -> str | None:
        """Name the first row that does not have the action it had at first, to the last bit."""
        return self.first(~(actions == self.actions).all(axis=1), what)

    def first(self, wrong: npt.NDArray[np.bool_], what: str) -> str | None:
        """Name the first row where something is wrong, and count them; None if there is none."""
        if not wrong.any():
            return None
        i = int(wrong.argmax())
        return f"{_row(self.C[i], self.rows[i])} {what} ({wrong.sum()} of {len(wrong)} rows do)."


def check(omega: FeasibleSet, rows: int = 200, seed: int = 0) -> Report:
    """Try a set of yours against the contract of :class:`FeasibleSet`, and report what fails.

    Nothing is printed, and no failure raises: print the report, or assert its ``ok`` in a test of yours. That actions
    are optimal is tried by comparing each with all others that the set returned: a set which misses the same actions
    for all rows is not found out. Rows are solved about fifteen times each.

    Parameters
    ----------
    omega
        The set: an :class:`Oracle`, or a subclass of your own.
    rows
        About how many rows of coefficients to try, at least 16: generic, tied, zero, huge and tiny ones.
    seed
        For the random coefficients.

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
    trial, answers = _answers(omega, C)
    findings = [answers]
    if trial is not None:
        findings += [_try(rule, advice, test, trial) for rule, advice, test in _RULES]
        findings += [_note(rule, test, trial) for rule, test in _NOTES]
    return Report(findings, C)


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
    trial = _Trial(omega, rows[finite], C[rows][finite], actions[finite]) if finite.any() else None
    return trial, Finding(rule, wrong is None, wrong or "")


def _one_by_one(omega: FeasibleSet, C: Floats) -> tuple[Indices, Floats, str | None]:
    rows, actions, wrong = [], [np.empty((0, omega.dimension))], None
    for row, c in enumerate(C):
        try:
            actions.append(np.reshape(omega.argmax(c[None].copy()), (1, omega.dimension)))
            rows.append(row)
        except Exception as error:
            wrong = wrong or f"{_row(c, row)} {_raised(error)}."
    return np.array(rows, dtype=np.int64), np.concatenate(actions), wrong


def _try(rule: str, advice: str, test: Callable[[_Trial], str | None], trial: _Trial) -> Finding:
    try:
        wrong = test(trial)
    except Exception as error:
        wrong = f"it {_raised(error)}."
    return Finding(rule, wrong is None, "" if wrong is None else f"{wrong} {advice}")


def _note(rule: str, test: Callable[[_Trial], str | None], trial: _Trial) -> Finding:
    found = _try(rule, "", test, trial)
    return found._replace(passed=found.passed or None, detail=found.detail.rstrip())


def _bounds(trial: _Trial) -> str | None:
    return trial.first(
        trial.omega._outside_box(trial.actions) > trial.omega.tolerance, "left the box of lower and upper"
    )


def _feasible(trial: _Trial) -> str | None:
    excess = trial.omega.violation(trial.actions)
    if np.shape(excess) != (len(trial.actions),):
        return f"violation() returned shape {np.shape(excess)} for {len(trial.actions)} actions."
    return trial.first(
        ~(excess <= trial.omega.tolerance), f"got an action outside the set by violation() > {FEASIBILITY:g}"
    )


def _alone(trial: _Trial) -> str | None:
    alone = np.concatenate([trial.solve(c[None]) for c in trial.C])
    return trial.compare(alone, "gets another action alone than in a batch")


def _reversed(trial: _Trial) -> str | None:
    return trial.compare(trial.solve(trial.C[::-1])[::-1], "gets another action in the reversed batch")


def _repeated(trial: _Trial) -> str | None:
    return trial.compare(trial.solve(trial.C), "gets another action when the call is repeated")


def _threads(trial: _Trial) -> str | None:
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda _: trial.solve(trial.C), range(3)))
    wrong = [trial.compare(actions, "gets another action while other threads solve") for actions in found]
    return next(filter(None, wrong), None)


def _hints(trial: _Trial) -> str | None:
    garbage = np.random.default_rng(0).normal(size=trial.C.shape) * 1e9
    for name, hint in (("its own", trial.actions), ("another row's", trial.actions[::-1]), ("a senseless", garbage)):
        wrong = trial.compare(trial.solve(trial.C, hint.copy()), f"gets another action with {name} hint")
        if wrong:
            return wrong
    return None


def _left_alone(trial: _Trial) -> str | None:
    C = trial.C.copy()
    trial.omega.argmax(C)
    return trial.first((trial.C != C).any(axis=1), "had its coefficients overwritten")


def _no_rows(trial: _Trial) -> str | None:
    shape = np.shape(trial.solve(trial.C[:0]))
    return (
        None if shape == trial.C[:0].shape else f"no rows must give actions of shape {trial.C[:0].shape}; got {shape}."
    )


def _scale(trial: _Trial) -> str | None:
    ordinary = (np.abs(trial.C).max(axis=1) < 1e200) & (np.abs(trial.C).max(axis=1) > 1e-200)
    scaled, size = normalised(trial.C), trial.size
    for factor in (1e8, 1e-8):
        actions = trial.actions.copy()
        actions[ordinary] = trial.solve(trial.C[ordinary] * factor)
        change = np.abs((scaled * (actions - trial.actions)).sum(axis=1))
        wrong = trial.first(change > _OPTIMAL * size, f"gets another value when multiplied by {factor:g}")
        if wrong:
            return wrong
    return None


def _optimal(trial: _Trial) -> str | None:
    scaled = normalised(trial.C)
    rivals = trial.actions[~(trial.omega.violation(trial.actions) > trial.omega.tolerance)]
    if not len(rivals):
        return None
    best = (scaled @ rivals.T).max(axis=1)
    missed = best - (scaled * trial.actions).sum(axis=1)
    return trial.first(
        missed > _OPTIMAL * trial.size, f"misses up to {missed.max():.3g} of what another row's action gives"
    )


def _spec(trial: _Trial) -> str | None:
    spec, ours, kind = trial.omega.spec(), to_spec(trial.omega), type(trial.omega)
    if spec is None:
        return None
    twin = kind(**spec) if ours is None else from_spec(kind.__name__, ours)
    return trial.compare(twin.argmax(trial.C.copy()), "gets another action from the set made of spec()")


def _noise(trial: _Trial) -> str | None:
    nudged = trial.C * (1.0 + 2e-16 * np.random.default_rng(0).choice([-1.0, 0.0, 1.0], size=trial.C.shape))
    moved = np.abs(trial.solve(nudged) - trial.actions).max(axis=1)
    return trial.first(
        moved > trial.omega.tolerance, "gets another action when the last digit of its coefficients changes"
    )


def _reached(trial: _Trial) -> str | None:
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


def _saved(trial: _Trial) -> str | None:
    return None if trial.omega.spec() is not None else "spec() is None: give the set again when loading an ensemble."


def _copied(trial: _Trial) -> str | None:
    for twin in (copy.deepcopy(trial.omega), pickle.loads(pickle.dumps(trial.omega))):
        wrong = trial.compare(twin.argmax(trial.C.copy()), "gets another action from a copy")
        if wrong:
            return wrong
    return None


def _raised(error: Exception) -> str:
    return f"raised {type(error).__name__}: {error}"


def _row(c: Floats, row: int) -> str:
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
    ("actions lie within the bounds", "Correct the argmax, or give the true lower and upper.", _bounds),
    ("actions are feasible", "Correct the argmax, or allow for its rounding in violation().", _feasible),
    ("no other action is better", "Check the sign (sets maximise), and the solver's tolerance.", _optimal),
    ("a repeated call gives the same", "Fix every seed, and keep no state between calls.", _repeated),
    ("a row alone is as in a batch", "Let nothing of the other rows into a row's answer: no warm start.", _alone),
    ("the order does not matter", "Let nothing of the row before into a row's answer: no warm start.", _reversed),
    ("threads do not matter", "Keep solver objects in a threading.local, or lock them.", _threads),
    ("hints change nothing", "A hint may save time: check that it is right before it is used.", _hints),
    ("coefficients are left alone", "Work on a copy.", _left_alone),
    ("no rows are fine", "Return an empty array of the same shape.", _no_rows),
    ("scale does not matter", "Divide each row by its largest magnitude before solving it.", _scale),
    ("spec() makes the same set", "Return every argument of the class, or None.", _spec),
]
_NOTES: list[tuple[str, Callable[[_Trial], str | None]]] = [
    ("the last digit does not break ties", _noise),
    ("the bounds are near", _reached),
    ("the set can be saved", _saved),
    ("the set can be copied and pickled", _copied),
]
