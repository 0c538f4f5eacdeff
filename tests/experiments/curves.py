"""Learning curves made up by hand, so that a test knows what must be said of them."""

from __future__ import annotations

from collections.abc import Sequence

from optensemble.experiments.learning_curve.points import METHODS, STACKING, CurvePoint, LearningCurve
from optensemble.experiments.outcome import FORESIGHT, PAPER_ENSEMBLES

FORESEEN = 10.0


def made_up_curve(
    name: str = "A",
    gaps: Sequence[float] = (2.0, 0.5, 0.05),
    sizes: Sequence[int] = (400, 2000, 10_000),
    methods: Sequence[tuple[str, str]] = METHODS,
) -> LearningCurve:
    """A curve in which every method promises 8, too much by one of the ``gaps`` for each size; foresight earns 10.

    The paper's bound of the gap is 1, of the regret 3, and the regret is 2.
    """
    points = [CurvePoint(size, FORESIGHT, STACKING, float("nan"), FORESEEN, 0.01, float("nan")) for size in sizes]
    points += [
        made_up_point(size, policy, stage, gap)
        for policy, stage in methods
        for size, gap in zip(sizes, gaps, strict=True)
    ]
    return LearningCurve(name, tuple(points))


def made_up_point(rows: int, policy: str, stage: str, gap: float) -> CurvePoint:
    more = (
        {
            "gap_bound": 1.0,
            "regret": 2.0,
            "regret_bound": 3.0,
            "rounds": 7,
            "converged": gap < 1,
            "worst_violation": gap,
        }
        if policy in PAPER_ENSEMBLES
        else {"low": 7.0, "high": 9.0}
    )
    seconds = {"fit_seconds": rows / 1000, "evaluation_seconds": 1.0}
    return CurvePoint(rows, policy, stage, 8.0, 8.0 - gap, 0.02, 0.01, **more, **seconds)  # type: ignore[arg-type]
