"""What is seen of a run: bars while it goes on, tables when it is done."""

from __future__ import annotations

import io
import re
import time
from pathlib import Path

import pytest
from rich.console import Console

from optensemble.experiments.console import print_results, show_progress
from optensemble.experiments.decision_section import decision_summary
from optensemble.experiments.outcome import BLACK_BOX_ENSEMBLE, FRESH, IN_SAMPLE, POLICIES, WHITE_BOX_ENSEMBLE, Outcome
from optensemble.experiments.reproduce import Reproduction, expected_seconds
from optensemble.experiments.settings import Settings
from tests.experiments.outcomes import made_up


def wait_for(screen: io.StringIO, text: str) -> None:
    deadline = time.monotonic() + 10
    while text not in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue()):
        assert time.monotonic() < deadline, f"{text!r} was never shown"
        time.sleep(0.01)


def test_a_terminal_sees_every_phase_the_percentage_and_the_time_left() -> None:
    screen, names = io.StringIO(), ["A", "B", "D"]
    with show_progress(Console(file=screen, force_terminal=True, width=100), Settings(), names) as tell:
        wait_for(screen, "begins")
        wait_for(screen, "0%")
        wait_for(screen, "left")
        tell("A", "was on disk", 1)
        wait_for(screen, "A: was on disk")
        tell(None, "compiling kernels", 1)
        wait_for(screen, "compiling kernels")
        for phase in ("training members", "debiasing", "replay in sample", "replay on fresh rows", "audit"):
            tell("B", phase, 0.5)
            wait_for(screen, f"B: {phase}")
            tell("B", phase, 1)
        tell("B", "done", 1)
        wait_for(screen, "B: done")
        tell(None, "drawing figures", 0.6)
        wait_for(screen, "drawing figures")
        assert "D: debiasing" not in screen.getvalue()


def test_the_one_bar_never_goes_back_and_ends_full_without_work_that_is_on_disk() -> None:
    screen, names = io.StringIO(), ["A", "B"]
    plain = Console(file=screen, force_terminal=True, color_system=None, width=100)
    with show_progress(plain, Settings(), names) as tell:
        tell("A", "was on disk", 1)
        for name, phase in expected_seconds(Settings(), ["B"]):
            for share in (0.5, 1.0, 0.2):
                tell(name, phase, share)
            tell(name, phase, 1.0)
        wait_for(screen, "100%")
    shares = [int(found) for found in re.findall(r"(\d+)%", screen.getvalue())]
    assert shares == sorted(shares)
    assert len(re.findall("━", screen.getvalue().splitlines()[-1])) <= 24


def test_without_a_terminal_no_progress_is_shown() -> None:
    screen = io.StringIO()
    with show_progress(Console(file=screen), Settings(), ["A"]) as tell:
        tell(None, "compiling kernels", 1)
        tell("A", "debiasing", 0.5)
    assert screen.getvalue() == ""


def shown(outcomes: list[Outcome], page: Path = Path("out/report.html"), width: int = 80) -> str:
    screen = io.StringIO()
    print_results(Console(file=screen, width=width), Reproduction(outcomes, {}, page), Settings())
    return screen.getvalue()


@pytest.mark.parametrize(
    ("width", "scale"),
    [
        (80, 1),
        (200, 1000),
        (80, 1000),
    ],
)
def test_tables_show_every_payoff(width: int, scale: float) -> None:
    high, low = 12.3456 * scale, -23.4567 * scale
    outcome = made_up("A", in_sample={WHITE_BOX_ENSEMBLE: (high, low)}, fresh={BLACK_BOX_ENSEMBLE: (low, high)})
    text = shown([outcome], width=width)
    assert "…" not in text
    for policy in POLICIES:
        row = next(line for line in text.splitlines() if line.startswith(f"{policy}  "))
        lines = [outcome.payoff(where, policy) for where in (IN_SAMPLE, FRESH)]
        numbers = [(line.promised, line.realised, line.gap) for line in lines]
        expected = [f"{number:,.2f}" for line in numbers for number in line if number == number]
        assert [number.lstrip("+").replace("−", "-") for number in row.removeprefix(policy).split()] == expected
    assert "400 rows in sample, 20,000 fresh" in " ".join(text.split())


def test_the_answer_is_the_last_word_on_payoffs() -> None:
    outcomes = [made_up("A"), made_up("B", allowed=0.1)]
    text = " ".join(shown(outcomes).split())
    said = " ".join(decision_summary(outcomes).split())
    assert text.index("Normalised payoff") < text.index(said) < text.index("White box converged")


@pytest.mark.parametrize("folder", ["plain", "run[b]", "run[/b]", "long" * 30])
def test_the_page_is_named_so_that_it_can_be_copied(folder: str) -> None:
    page = Path(folder) / "report.html"
    assert str(page) in shown([made_up()], page)
