"""Files that are replaced whole or not at all."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from optensemble._core.atomic_files import locked, replace
from optensemble.exceptions import FileError
from tests.jobs.worlds import leftovers


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    for content in (b"one", b"two"):
        replace(path, content)
        assert path.read_bytes() == content
    assert leftovers(tmp_path) == []


def test_a_place_that_cannot_be_written_to_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"cannot write .*nowhere.*: No such file or directory. Choose a folder"):
        replace(tmp_path / "nowhere" / "page.html", b"x")


def test_a_file_that_may_not_be_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    (tmp_path / "e.oe").touch()
    monkeypatch.setattr("builtins.open", refuse)  # an administrator may read all
    with pytest.raises(FileError, match=r"cannot read .*e.oe: Permission denied. Make"), locked(tmp_path / "e.oe"):
        pass
