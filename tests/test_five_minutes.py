"""As a new user: the five commands that the first page shows, from an empty folder to decisions and a page."""

from __future__ import annotations

import re
import resource
from pathlib import Path
from runpy import run_path

import pandas as pd
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.no_cover]

DOCS = Path(__file__).parent.parent / "docs"
FIVE = ["init", "check", "fit", "decide", "report"]
SECONDS = 120


def first_commands() -> list[str]:
    """Return the first five commands of the program that the page shows."""
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    return re.findall(r"^\$ (optensemble .*)$", text, re.MULTILINE)[: len(FIVE)]


def test_five_commands_lead_to_decisions_and_a_page_in_two_minutes(tmp_path: Path) -> None:
    commands = first_commands()
    assert [command.split()[1] for command in commands] == FIVE
    shell, before = run_path(str(DOCS / "console.py"))["Shell"](tmp_path), _processor_seconds()
    for command in commands:
        printed = shell.run(command)
        assert (shell.code, "optensemble:" in printed) == (0, False), printed
        assert all(line in printed for line in _advised(commands) if command == commands[0])
    assert len(pd.read_csv(tmp_path / "decisions.csv")) == len(pd.read_csv(tmp_path / "new.csv")) == 200
    assert (tmp_path / "report.html").read_text(encoding="utf-8").rstrip().endswith("</html>")
    # the time of processors: that on the clock is also that of other tests
    assert _processor_seconds() - before < SECONDS


def _advised(commands: list[str]) -> list[str]:
    """The first command prints the others."""
    return [f"  {command}" for command in commands[1:]]


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
