"""The one progress bar of a command: a percentage of the whole that never falls, and nothing without a terminal."""

from __future__ import annotations

import re
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import optensemble as oe
from optensemble import feasible
from optensemble._core.progress import DECISION_STAGES, PAPER_STAGES, Overall
from optensemble.cli.console import CommandOutput, ProgressBar


class Screen:
    """What a bar was told to show."""

    def __init__(self) -> None:
        self.shown: list[dict[str, Any]] = []

    def add_task(self, description: str, **fields: Any) -> int:
        self.shown.append({"description": description, **fields})
        return 7

    def update(self, task: int, **fields: Any) -> None:
        assert task == 7
        self.shown.append(fields)

    @property
    def shares(self) -> list[float]:
        return [fields["completed"] for fields in self.shown if "completed" in fields]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"FORCE_COLOR": "1", "TERM": "xterm", "COLUMNS": "80"}.items():
        monkeypatch.setenv(name, value)


def seen(capsys: pytest.CaptureFixture[str]) -> str:
    printed, shown = capsys.readouterr()
    assert printed == ""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown).replace("\r", "\n")


STEPS = st.lists(st.tuples(st.sampled_from([*DECISION_STAGES, "unheard of"]), st.floats(0, 1)), max_size=30)


@given(STEPS)
def test_the_share_of_the_whole_never_falls_and_is_one_at_the_end(told: list[tuple[str, float]]) -> None:
    whole = Overall(DECISION_STAGES)
    shares = [whole(stage, share) for stage, share in told]
    assert shares == sorted(shares)
    assert all(0 <= share <= 1 for share in shares)
    assert whole("verifying", 1.0) == 1.0


def test_stages_count_by_their_time_and_those_passed_over_not_at_all() -> None:
    whole = Overall({"a": 1, "b": 2, "c": 1})
    assert whole("a", 1.0) == 1 / 4
    assert whole("b", 0.5) == 2 / 4
    assert Overall({"a": 1, "b": 2, "c": 1})("b", 0.5) == 1 / 3
    assert Overall(PAPER_STAGES)("cross-fitting", 0.5) == 0.5


@pytest.mark.parametrize("kind", ["decision", "white box"])
def test_a_fit_fills_the_bar(kind: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    Y, models = X + rng.normal(size=X.shape), [("east", lambda X: X * [1, 0]), ("west", lambda X: X * [0, 1])]
    screen = Screen()
    bar, ensemble = ProgressBar(screen, "fitting"), oe.DecisionEnsemble(models=models, feasible=feasible.Simplex(2))
    if kind == "white box":
        bar.stages, ensemble = PAPER_STAGES, oe.WhiteBoxEnsemble(models, feasible.Simplex(2))
    ensemble.fit(X, Y, progress=bar)
    bar.finish()
    assert screen.shown[0] == {"description": "fitting", "total": None, "speed": "", "left": ""}
    assert screen.shares == sorted(screen.shares)
    assert screen.shares[-1] == 1.0
    assert max(screen.shares[:-1]) >= 0.8  # there is no jump at the end
    assert {len(fields["description"]) for fields in screen.shown[1:-1]} == {max(map(len, bar.stages))}


def test_rows_per_second_are_those_of_the_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 1.0, 2.0, 4.0])
    monkeypatch.setattr("optensemble.cli.console.monotonic", lambda: next(clock))
    screen = Screen()
    bar = ProgressBar(screen, "deciding")
    bar.rows = 2000
    for stage, share in (("deciding", 0.25), ("deciding", 1.0), ("writing", 0.5)):
        bar(stage, share)
    assert [fields["speed"] for fields in screen.shown[1:]] == ["500 rows/s", "1,000 rows/s", "500 rows/s"]
    assert screen.shares == [0.25, 1.0, 1.0]


@pytest.mark.usefixtures("terminal")
def test_a_terminal_sees_one_bar_with_the_percentage_and_the_stage(capsys: pytest.CaptureFixture[str]) -> None:
    with CommandOutput(False, False).progress("fitting") as bar:
        for stage in DECISION_STAGES:
            bar(stage, 1.0)
    lines = seen(capsys).splitlines()
    assert "verifying" in lines[-2]
    assert "100%" in lines[-2]
    assert max(map(len, lines)) <= 80
    assert all(line.count("%") <= 1 for line in lines)


@pytest.mark.usefixtures("terminal")
def test_work_without_a_share_has_a_bar_without_a_percentage(capsys: pytest.CaptureFixture[str]) -> None:
    with CommandOutput(False, False).progress("auditing"):
        pass
    shown = seen(capsys)
    assert "auditing" in shown
    assert "%" not in shown
    assert "left" not in shown


@pytest.mark.parametrize("quiet", [False, True])
def test_without_a_terminal_or_quiet_nothing_is_shown(
    quiet: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if quiet:
        monkeypatch.setenv("FORCE_COLOR", "1")
    with CommandOutput(False, quiet).progress("fitting") as bar:
        bar("asking members", 0.5)
        bar.finish()
    assert capsys.readouterr() == ("", "")
