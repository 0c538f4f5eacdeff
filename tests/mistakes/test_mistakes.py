"""Every mistake of the catalogue is put right, refused, told, or done and counted: none ends in a wrong number."""

from __future__ import annotations

import re
import runpy
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tests.mistakes.catalogue import MISTAKES
from tests.mistakes.mistake import DONE, PUT_RIGHT, REFUSED, TOLD, Mistake, commit, message

pytestmark = pytest.mark.slow


def test_there_are_at_least_sixty_and_all_are_different() -> None:
    named = Counter((each.group, each.name) for each in MISTAKES)
    assert len(named) == len(MISTAKES) >= 60
    assert {each.now for each in MISTAKES} == {PUT_RIGHT, REFUSED, TOLD, DONE}
    assert all(each.before and each.before != "?" for each in MISTAKES)
    assert all(bool(each.words) == (each.now != PUT_RIGHT) for each in MISTAKES)
    assert all(bool(each.kind) == (each.now in (REFUSED, TOLD)) for each in MISTAKES)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda each: f"{each.group}: {each.name}")
def test_no_mistake_ends_in_a_wrong_number(mistake: Mistake) -> None:
    seen = commit(mistake)
    if mistake.now == REFUSED:
        assert seen.error is not None
        assert seen.error[0] == mistake.kind
        assert re.search(mistake.words, seen.error[1], re.DOTALL), seen.error[1]
        return
    assert seen.error is None
    if mistake.now == TOLD:
        assert any(kind == mistake.kind and re.search(mistake.words, said, re.DOTALL) for kind, said in seen.told)
        return
    assert seen.told == ()
    if mistake.now == DONE:
        assert message(mistake, seen), seen.notes
    if mistake.now == PUT_RIGHT or seen.clean is not None:
        assert seen.numbers is not None
        assert seen.clean is not None
        np.testing.assert_allclose(seen.numbers, seen.clean, rtol=1e-9, atol=1e-12)


def test_the_page_shows_what_is_done() -> None:
    """Mistakes are committed once in this process: here they are only read."""
    script = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "mistakes.py"))
    shown, made = script["PAGE"].read_text(encoding="utf-8"), script["page"]()
    assert script["without_numbers"](shown) == script["without_numbers"](made), "python docs/mistakes.py --write"
