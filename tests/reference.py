"""A slow textbook version of the paper's Algorithms 1 (Update), 2 (White Box) and 3 (Black Box).

Plain loops over rows, to be compared with a fast implementation; shares no code with one. Conventions:

* A row is an index 0..n-1, and the distribution is the uniform one on the rows.
* A cell C is the ascending list of its rows. Cells always come in a fixed order, empty ones included:
  white box, model i:  coordinate, then bucket, then winner (the last is fastest), then the groups;
  black box:           policies in their order, then the model's own policy; within each of them
                       coordinate, then bucket; then the groups.
* Groups are in ascending order of their label. Where two cells violate equally, the first is patched.
* Of equally good actions the first in the list is taken; of equal self-assessments the lowest model index.
* Cells of fewer than min_cell rows are neither patched nor judged.
* Self-assessments, and violations, are equal when they agree to a relative TIE. Equality in exact arithmetic is
  common (two models patched to the same label; complementary cells with opposite sums), and rounding must not
  decide which of them is taken.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Cell = list[int]

TIE = 1e-9
SCHEDULES = ("frozen", "joint", "round-robin")


@dataclass
class Result:
    """What a run ends with.

    predictions: white box (k, n, d); black box (n, d).
    actions:     the actions these predictions induce, of the same shape.
    winner:      white box: for each row the model with the best self-assessment; black box: None.
    rounds:      outer rounds (frozen, joint) or visits (round-robin) done; a final check which finds no
                 violation is not a round.
    patches:     single patches made on a cell with a violation above alpha (joint: 0).
    worst:       the largest violation over all cells, of at least min_cell rows, of the final predictions.
    drops:       for every single patch, whatever its violation: the observed drop of E||h - y||^2, and what
                 the paper's lemma says it is, Pr[C] * ||delta||^2 (joint: empty).
    """

    predictions: FloatArray
    actions: FloatArray
    winner: IntArray | None
    rounds: int
    patches: int
    worst: float
    drops: list[tuple[float, float]]


@dataclass
class Log:
    """Counts what the patches did."""

    patches: int = 0
    drops: list[tuple[float, float]] = field(default_factory=list)


# --- Section 2: actions, self-assessments, buckets ---------------------------------------------------------


def dot(a: FloatArray, b: FloatArray) -> float:
    total = 0.0
    for j in range(len(a)):
        total += float(a[j]) * float(b[j])
    return total


def better(value: float, than: float, sense: str) -> bool:
    return value > than if sense == "max" else value < than


def best_action(actions: FloatArray, coefficients: FloatArray, sense: str = "max") -> FloatArray:
    """Give argmax (argmin) over the listed actions of a . coefficients; the first of the best ones."""
    best = 0
    best_value = dot(actions[0], coefficients)
    for b in range(1, len(actions)):
        value = dot(actions[b], coefficients)
        if better(value, best_value, sense):
            best, best_value = b, value
    chosen: FloatArray = actions[best]
    return chosen


def induced_policy(h: FloatArray, actions: FloatArray, sense: str) -> FloatArray:
    """Give pi_h(x) for every row x."""
    policy = np.zeros(h.shape)
    for x in range(len(h)):
        policy[x] = best_action(actions, h[x], sense)
    return policy


def winners(models: list[FloatArray], policies: list[FloatArray], sense: str) -> IntArray:
    """Give i*(x), the model with the highest (lowest) self-assessment pi_i(x) . h_i(x), for every row x."""
    n = len(models[0])
    winner = np.zeros(n, dtype=np.int64)
    for x in range(n):
        values = [dot(policies[i][x], models[i][x]) for i in range(len(models))]
        best_value = max(values) if sense == "max" else min(values)
        winner[x] = next(i for i, value in enumerate(values) if abs(value - best_value) <= TIE * abs(best_value))
    return winner


def bucket_of(a: float, n_buckets: int) -> int:
    t = math.floor(a * n_buckets + 1e-9)
    return min(max(t, 0), n_buckets - 1)


# --- Cells -------------------------------------------------------------------------------------------------


def level_set(policy: FloatArray, j: int, t: int, n_buckets: int) -> Cell:
    """Give {x : pi(x)_j in bucket t}."""
    return [x for x in range(len(policy)) if bucket_of(float(policy[x, j]), n_buckets) == t]


def level_sets(policy: FloatArray, n_buckets: int) -> list[Cell]:
    d = policy.shape[1]
    return [level_set(policy, j, t, n_buckets) for j in range(d) for t in range(n_buckets)]


def group_cells(groups: IntArray | None) -> list[Cell]:
    """Give {x : group(x) = g} for each label g which occurs."""
    if groups is None:
        return []
    values = sorted({int(g) for g in groups})
    return [[x for x in range(len(groups)) if groups[x] == g] for g in values]


def by_winner(cell: Cell, winner: IntArray, k: int) -> list[Cell]:
    """Split a cell into its intersections with {x : i*(x) = m}, m = 0..k-1."""
    return [[x for x in cell if winner[x] == m] for m in range(k)]


def white_box_cells(policy: FloatArray, winner: IntArray, k: int, n_buckets: int) -> list[Cell]:
    cells: list[Cell] = []
    for cell in level_sets(policy, n_buckets):
        cells.extend(by_winner(cell, winner, k))
    return cells


def black_box_cells(policies: list[FloatArray], own: FloatArray, n_buckets: int) -> list[Cell]:
    cells: list[Cell] = []
    for policy in [*policies, own]:
        cells.extend(level_sets(policy, n_buckets))
    return cells


def large(cells: list[Cell], min_cell: int) -> list[Cell]:
    """Leave out cells of too few rows; with min_cell=1 the empty ones, which change nothing."""
    return [cell for cell in cells if len(cell) >= min_cell]


# --- Section 3: violations, patches, Algorithm 1 -----------------------------------------------------------


def mean_residual(h: FloatArray, y: FloatArray, cell: Cell) -> FloatArray:
    """Give E[y - h(x) | x in C]; C must not be empty."""
    total = np.zeros(y.shape[1])
    for x in cell:
        for j in range(y.shape[1]):
            total[j] += y[x, j] - h[x, j]
    return total / len(cell)


def violation(h: FloatArray, y: FloatArray, cell: Cell) -> float:
    """Give Pr[C] * ||E[y - h(x) | x in C]||_inf; 0 for an empty cell."""
    if not cell:
        return 0.0
    largest = max(abs(float(r)) for r in mean_residual(h, y, cell))
    return len(cell) / len(y) * largest


def worst_violation(h: FloatArray, y: FloatArray, cells: list[Cell]) -> float:
    return max((violation(h, y, cell) for cell in cells), default=0.0)


def mean_squared_error(h: FloatArray, y: FloatArray) -> float:
    """Give E||h(x) - y||^2."""
    total = 0.0
    for x in range(len(y)):
        total += dot(h[x] - y[x], h[x] - y[x])
    return total / len(y)


def patch(h: FloatArray, y: FloatArray, cell: Cell, alpha: float, log: Log) -> FloatArray:
    """Add the mean residual vector of a cell to h on the rows of the cell; an empty one changes nothing."""
    if not cell:
        return h
    if violation(h, y, cell) > alpha:
        log.patches += 1
    delta = mean_residual(h, y, cell)
    patched = h.copy()
    for x in cell:
        patched[x] = patched[x] + delta
    observed = mean_squared_error(h, y) - mean_squared_error(patched, y)
    log.drops.append((observed, len(cell) / len(y) * dot(delta, delta)))
    return patched


def update(h: FloatArray, y: FloatArray, cells: list[Cell], alpha: float, log: Log) -> FloatArray:
    """Algorithm 1: while some cell violates, patch the one with the largest violation."""
    while True:
        violations = [violation(h, y, cell) for cell in cells]
        largest = max(violations, default=0.0)
        if not largest > alpha:
            return h
        chosen = next(c for c, v in enumerate(violations) if v >= largest * (1 - TIE) and v > alpha)
        h = patch(h, y, cells[chosen], alpha, log)


def joint_update(h: FloatArray, y: FloatArray, cells: list[Cell], alpha: float, shrinkage: float) -> FloatArray:
    """If some cell violates, correct all cells at once by (ridge) least squares.

    Equal cells keep a column each, which matters only with shrinkage > 0.
    """
    if not worst_violation(h, y, cells) > alpha:
        return h
    cells = [cell for cell in cells if cell]
    Z = np.zeros((len(y), len(cells)))
    for c, cell in enumerate(cells):
        for x in cell:
            Z[x, c] = 1.0
    R = y - h
    if shrinkage > 0:
        # The same problem, written as plain least squares with sqrt(shrinkage) * delta_c as more residuals.
        Z_more = np.vstack([Z, math.sqrt(shrinkage) * np.eye(len(cells))])
        R_more = np.vstack([R, np.zeros((len(cells), y.shape[1]))])
        delta = np.asarray(np.linalg.lstsq(Z_more, R_more, rcond=None)[0], dtype=np.float64)
    else:
        # of the solutions, lstsq gives the one with minimum norm
        delta = np.asarray(np.linalg.lstsq(Z, R, rcond=None)[0], dtype=np.float64)
    corrected: FloatArray = h + Z @ delta
    return corrected


# --- Section 4: Algorithm 2 --------------------------------------------------------------------------------


def white_box(
    predictions: ArrayLike,
    labels: ArrayLike,
    actions_list: ArrayLike,
    *,
    schedule: str,
    sense: str = "max",
    alpha: float,
    width: float,
    max_rounds: int,
    shrinkage: float = 0.0,
    groups: ArrayLike | None = None,
    min_cell: int = 1,
) -> Result:
    """Algorithm 2 on k models, predictions (k, n, d)."""
    check(schedule, sense, alpha)
    models = list(np.array(predictions, dtype=np.float64))
    y = np.array(labels, dtype=np.float64)
    actions = np.array(actions_list, dtype=np.float64)
    group_list = group_cells(None if groups is None else np.array(groups, dtype=np.int64))
    k, d, n_buckets = len(models), y.shape[1], round(1 / width)
    log = Log()
    rounds = 0

    def look() -> tuple[list[FloatArray], IntArray, list[list[Cell]], float]:
        """Compute what the current predictions induce: actions, winners, cells, the worst violation."""
        policies = [induced_policy(h, actions, sense) for h in models]
        winner = winners(models, policies, sense)
        cells = [large(white_box_cells(policies[i], winner, k, n_buckets) + group_list, min_cell) for i in range(k)]
        worst = max(worst_violation(models[i], y, cells[i]) for i in range(k))
        return policies, winner, cells, worst

    if schedule == "round-robin":
        # (model, coordinate, bucket, group cell): a level set with its k winner cells, or a group's cell
        cycle: list[tuple[int, int, int, Cell | None]] = []
        cycle += [(i, j, t, None) for j in range(d) for t in range(n_buckets) for i in range(k)]
        cycle += [(i, -1, -1, cell) for cell in group_list for i in range(k)]

        quiet = 0  # consecutive visits without a violation
        while rounds < max_rounds and quiet < len(cycle):
            i, j, t, group_cell = cycle[rounds % len(cycle)]
            if group_cell is None:
                policies = [induced_policy(h, actions, sense) for h in models]
                winner = winners(models, policies, sense)
                visited = by_winner(level_set(policies[i], j, t, n_buckets), winner, k)
            else:
                visited = [group_cell]
            visited = large(visited, min_cell)
            quiet = quiet + 1 if worst_violation(models[i], y, visited) <= alpha else 0
            for cell in visited:
                models[i] = patch(models[i], y, cell, alpha, log)
            rounds += 1
    else:
        while rounds < max_rounds:
            _, _, cells, worst = look()
            if worst <= alpha:
                break
            for i in range(k):  # the cells stay those of the round's beginning
                if schedule == "frozen":
                    models[i] = update(models[i], y, cells[i], alpha, log)
                else:
                    models[i] = joint_update(models[i], y, cells[i], alpha, shrinkage)
            rounds += 1

    policies, winner, _, worst = look()
    return Result(np.array(models), np.array(policies), winner, rounds, log.patches, worst, log.drops)


# --- Section 5: Algorithm 3 --------------------------------------------------------------------------------


def black_box(
    initial: ArrayLike,
    policy_actions: ArrayLike,
    labels: ArrayLike,
    actions_list: ArrayLike,
    *,
    schedule: str,
    sense: str = "max",
    alpha: float,
    width: float,
    max_rounds: int,
    shrinkage: float = 0.0,
    groups: ArrayLike | None = None,
    min_cell: int = 1,
) -> Result:
    """Algorithm 3 on one model, initial (n, d), and k policies, policy_actions (k, n, d)."""
    check(schedule, sense, alpha)
    h = np.array(initial, dtype=np.float64)
    given = list(np.array(policy_actions, dtype=np.float64))
    y = np.array(labels, dtype=np.float64)
    actions = np.array(actions_list, dtype=np.float64)
    group_list = group_cells(None if groups is None else np.array(groups, dtype=np.int64))
    k, d, n_buckets = len(given), y.shape[1], round(1 / width)
    log = Log()
    rounds = 0

    if schedule == "round-robin":
        # (source, coordinate, bucket, group cell): a level set of source, k being h itself, or a group's cell
        cycle: list[tuple[int, int, int, Cell | None]] = []
        cycle += [(s, j, t, None) for j in range(d) for t in range(n_buckets) for s in range(k + 1)]
        cycle += [(-1, -1, -1, cell) for cell in group_list]

        quiet = 0  # consecutive visits without a violation
        while rounds < max_rounds and quiet < len(cycle):
            source, j, t, group_cell = cycle[rounds % len(cycle)]
            if group_cell is not None:
                visited = group_cell
            elif source < k:
                visited = level_set(given[source], j, t, n_buckets)
            else:
                visited = level_set(induced_policy(h, actions, sense), j, t, n_buckets)
            if len(visited) < min_cell:
                visited = []
            quiet = quiet + 1 if violation(h, y, visited) <= alpha else 0
            h = patch(h, y, visited, alpha, log)
            rounds += 1
    else:
        while rounds < max_rounds:
            own = induced_policy(h, actions, sense)
            cells = large(black_box_cells(given, own, n_buckets) + group_list, min_cell)
            if worst_violation(h, y, cells) <= alpha:
                break
            frozen = schedule == "frozen"
            h = update(h, y, cells, alpha, log) if frozen else joint_update(h, y, cells, alpha, shrinkage)
            rounds += 1

    own = induced_policy(h, actions, sense)
    worst = worst_violation(h, y, large(black_box_cells(given, own, n_buckets) + group_list, min_cell))
    return Result(h, own, None, rounds, log.patches, worst, log.drops)


def check(schedule: str, sense: str, alpha: float) -> None:
    if schedule not in SCHEDULES:
        raise ValueError(f"schedule must be one of {SCHEDULES}, not {schedule!r}")
    if sense not in ("max", "min"):
        raise ValueError(f"sense must be 'max' or 'min', not {sense!r}")
    if schedule == "frozen" and not alpha > 0:
        raise ValueError("Algorithm 1 need not terminate unless alpha > 0")


# --- Feasible sets -----------------------------------------------------------------------------------------


def polytope_vertices(A_ub: ArrayLike, b_ub: ArrayLike, dimension: int) -> FloatArray:
    """Give the vertices of {a : A_ub a <= b_ub, 0 <= a <= 1}, in ascending lexicographic order.

    Every vertex is where `dimension` linearly independent constraints are active. Points which agree to nine
    decimals are one vertex, and are ordered as if they agreed exactly.
    """
    identity = np.eye(dimension)
    A = np.vstack([np.array(A_ub, dtype=np.float64).reshape(-1, dimension), -identity, identity])
    b = np.concatenate([np.array(b_ub, dtype=np.float64).ravel(), np.zeros(dimension), np.ones(dimension)])
    found: dict[tuple[float, ...], FloatArray] = {}
    for active in itertools.combinations(range(len(A)), dimension):
        rows = list(active)
        if np.linalg.matrix_rank(A[rows]) < dimension:
            continue
        point = np.asarray(np.linalg.solve(A[rows], b[rows]), dtype=np.float64)
        if all(dot(A[c], point) <= b[c] + 1e-9 for c in range(len(A))):
            point = np.clip(point, 0.0, 1.0) + 0.0
            key = tuple(round(float(v), 9) for v in point)
            found.setdefault(key, point)
    if not found:
        raise ValueError("the polytope is empty")
    return np.array([found[key] for key in sorted(found)])
