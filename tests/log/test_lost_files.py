"""Files that are taken away from under a log: nothing is decided that nobody would find again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import optensemble as oe
from optensemble.exceptions import LogError
from tests.ensembles.decision import N
from tests.log.logged import X, Y, begun, play


@pytest.mark.parametrize("change", ["deleted", "replaced"])
def test_a_log_whose_file_is_gone_decides_and_learns_no_more(change: str, tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    live = play(begun(path), N, N + 20)
    if change == "deleted":
        path.unlink()
    else:
        begun(tmp_path / "other.db").close()
        os.replace(tmp_path / "other.db", path)
    with pytest.raises(LogError, match=r"a\.db was deleted, or another file was put in its place"):
        live.answer(X.iloc[[N + 20]], ids=[N + 20])
    with pytest.raises(LogError, match=r"Stop, restore it from a backup, and resume from it\."):
        live.observe([N], Y[[N]])
    assert (live.decided_, live.rows_) == (20, 0)
    with pytest.raises(LogError, match="was deleted"):
        live.log.probe()
    live.close()


def test_a_file_that_is_moved_away_and_back_is_the_same(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    live = play(begun(path), N, N + 20)
    os.rename(path, tmp_path / "b.db")
    with pytest.raises(LogError, match="was deleted"):
        play(live, N + 20, N + 30)
    os.rename(tmp_path / "b.db", path)
    play(live, N + 20, N + 30).close()
    with oe.LiveEnsemble.resume(path) as again:
        assert again.decided_ == 30
