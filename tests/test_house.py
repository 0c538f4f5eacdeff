"""The picture of the house in CONTRIBUTING.md is that of the code."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HOUSE = runpy.run_path(str(ROOT / "docs" / "house.py"))


@pytest.mark.slow
def test_the_section_is_what_the_code_gives() -> None:
    """In a process of its own: what other tests import and cache is not on the way."""
    done = subprocess.run([sys.executable, "docs/house.py"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"python docs/house.py --write renews it\n{done.stdout}{done.stderr}"


@pytest.mark.slow
def test_a_section_that_says_something_else_is_found_and_rewritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{HOUSE['BEGIN']}\nstale\n{HOUSE['END']}\nafter\n", encoding="utf-8")
    assert HOUSE["main"]([], page) == 1
    assert "-stale" in capsys.readouterr().out
    assert HOUSE["main"](["--write"], page) == 0
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "stale" not in text
    assert HOUSE["main"]([], page) == 0


def test_arrows_that_follow_from_others_are_left_out() -> None:
    arrows = {("a", "b"), ("b", "c"), ("a", "c"), ("c", "d"), ("a", "d"), ("e", "d")}
    assert HOUSE["reduced"](arrows) == {("a", "b"), ("b", "c"), ("c", "d"), ("e", "d")}


def test_every_import_between_rooms_goes_down_unless_the_contract_says_so() -> None:
    house = HOUSE["read_house"]()
    floor = {room: number for number, rooms in enumerate(house.floors) for room in rooms}
    down = {(by, of) for by, of in house.arrows - house.exceptions if of}
    assert down
    assert all(floor[by] < floor[of] for by, of in down)


def test_every_command_that_is_named_exists() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    for page in ("README.md", "CONTRIBUTING.md"):
        named = set(re.findall(r"(?:`|\$ )make ([a-z-]+)\b", (ROOT / page).read_text(encoding="utf-8")))
        assert "test" in named
        assert named <= targets, page
