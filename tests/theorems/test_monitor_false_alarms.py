"""A monitor raises a false alarm within its horizon at most as often as it says, whatever the distribution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from optensemble.monitoring.monitor import Monitor
from optensemble.stats.long_run import long_run_ratio
from tests.monitoring.worlds import INDEPENDENT, Errors, autoregressive

pytestmark = [pytest.mark.slow, pytest.mark.no_cover]

REPETITIONS, FITTED, HORIZON, FALSE_ALARMS = 500, 400, 1000, 0.05
MONITORS: dict[str, dict[str, Any]] = {
    "default": {},
    "less": {"directions": "less", "tolerance": 0.0},
    "more": {"directions": "more", "tolerance": 0.0},
    "both": {"tolerance": 0.0},
}


def alarms(errors: Errors, *, dependent: bool = False, drop: float = 0.0, **given: Any) -> float:
    """Return the share of monitors with an alarm; their scale is that of fitting rows."""
    raised = 0
    for seed in range(REPETITIONS):
        drawn = errors(np.random.default_rng(seed), FITTED + HORIZON)
        fitting, rows = drawn[:FITTED], drawn[FITTED:] - drop
        ratio = long_run_ratio(fitting) if dependent else 1.0
        monitor = Monitor(float(fitting.std()), long_run=ratio, horizon=HORIZON, false_alarms=FALSE_ALARMS, **given)
        raised += bool(monitor.observe(0.0, rows).standing)
    return raised / REPETITIONS


def most(share: float) -> float:
    return share + 2 * float(np.sqrt(share * (1 - share) / REPETITIONS))


@pytest.mark.parametrize("kind", INDEPENDENT)
@pytest.mark.parametrize("name", MONITORS)
def test_false_alarms_are_as_rare_as_told(kind: str, name: str) -> None:
    assert alarms(INDEPENDENT[kind], **MONITORS[name]) <= most(FALSE_ALARMS)


@pytest.mark.parametrize("kind", INDEPENDENT)
def test_the_edge_of_the_tolerance_is_no_change(kind: str) -> None:
    """All that is within the tolerance is allowed for, in its worst place too."""
    terms: dict[str, Any] = {"directions": "less", "horizon": HORIZON, "false_alarms": FALSE_ALARMS}
    raised = 0
    for seed in range(REPETITIONS):
        rows = INDEPENDENT[kind](np.random.default_rng(seed), HORIZON)
        raised += bool(Monitor(1.0, tolerance=0.3, **terms).observe(0.3, rows).standing)
    assert raised / REPETITIONS <= most(FALSE_ALARMS)


def test_dependent_rows_need_their_long_run_ratio() -> None:
    """An approximation: with it alarms are not much more often than told, without it they are."""
    assert alarms(autoregressive, dependent=True, **MONITORS["less"]) <= most(0.08)
    assert alarms(autoregressive, **MONITORS["less"]) > 0.5


@pytest.mark.parametrize("kind", INDEPENDENT)
def test_a_true_change_is_found(kind: str) -> None:
    """The tests above would notice a monitor that never says anything."""
    assert alarms(INDEPENDENT[kind], drop=0.5, **MONITORS["less"]) > 0.95
