"""Kill -9 at random moments of a logged stream: what follows is as if nothing had happened."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.log.postgres import new_database
from tests.log.stream_process import ROWS, events

ROOT = Path(__file__).parents[2]
MARKS = [pytest.mark.slow, pytest.mark.no_cover]
pytestmark = MARKS


def killed(log: str, folder: Path, kills: int, seed: int, refit_in: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.log.stream_process", log, str(folder), str(kills), str(seed), refit_in]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False, env=dict(os.environ)
    )
    assert done.returncode == 0, done.stderr
    print(done.stdout)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def require_as_undisturbed(found: dict[str, Any], kills: int) -> None:
    labelled = len({row for event in events() if event.labels for row in event.rows})
    assert found["kills"] == kills
    assert found["events while kills went on"] > kills / 2, "the kills came while the stream went on"
    assert found["same steps"], "every decision and every state that was told are those of an undisturbed run"
    assert found["same bits"]
    assert found["missing"] == 0, "every decision that was told is in the log"
    assert found["same actions in the log"]
    assert found["decisions"] == found["ids"] == ROWS, "no id is decided twice"
    assert found["labels"] == found["labelled"] == found["rows learned from"] == labelled, "no label counts twice"
    assert found["refits"] > 5


@pytest.mark.parametrize(("refit_in", "kills"), [("call", 60), ("thread", 40)])
def test_a_hundred_kills_with_sqlite(refit_in: str, kills: int, tmp_path: Path) -> None:
    require_as_undisturbed(killed(str(tmp_path / "log.db"), tmp_path, kills, 0, refit_in), kills)


def test_twenty_kills_with_postgresql(postgres: str, tmp_path: Path) -> None:
    require_as_undisturbed(killed(new_database(postgres), tmp_path, 20, 1, "call"), 20)
