"""Bad places to write to, and disks that are full: what was there before stays."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.cli.calling import Line, disk_of
from tests.cli.refusals import (
    AUDIT,
    CHECK,
    DECIDE,
    FAILED,
    FIT,
    NEW,
    OLD,
    REPORT,
    WRONG_USE,
    contents,
    refused,
    require_line,
)
from tests.jobs.worlds import write_table

pytestmark = pytest.mark.slow

# Places to write to


@pytest.mark.parametrize("command", [DECIDE, FIT, REPORT], ids=["decide", "fit", "report"])
def test_an_output_that_is_a_folder_or_in_a_missing_one_is_refused(
    command: tuple[str, ...], line: Line, folder: Path
) -> None:
    (folder / "a.csv").mkdir()
    for place, part in (("a.csv", "is a folder"), ("nowhere/out.csv", "does not exist")):
        refused(line, folder, (*command[:-1], place), WRONG_USE, place, part, "Give -o")


@pytest.mark.parametrize("command", [DECIDE, FIT, REPORT], ids=["decide", "fit", "report"])
def test_a_folder_that_cannot_be_written_to(command: tuple[str, ...], line: Line, folder: Path) -> None:
    closed = folder / "closed"
    closed.mkdir(mode=0o555)
    if os.access(closed, os.W_OK):  # nothing is closed to root, but no file can be made in /proc
        closed = Path("/proc")
    before = contents(folder)
    said = line(*command[:-1], str(closed / "out.csv"))
    require_line(said, FAILED, f"cannot write {closed}/out.csv", "Choose a folder that can be written to")
    assert contents(folder) == before


@pytest.mark.parametrize(
    "command",
    [
        (*DECIDE[:-1], "new.csv"),
        (*DECIDE[:-1], "e.oe"),
        (*FIT[:-1], "history.csv"),
        (*FIT[:-1], "job.toml"),
        (*REPORT[:-1], "later.csv"),
        (*REPORT[:-1], "e.oe"),
        ("init", "history.csv", "-o", "history.csv", "--force"),
    ],
    ids=str,
)
def test_what_is_read_is_not_written_over(command: tuple[str, ...], line: Line, folder: Path) -> None:
    refused(line, folder, command, WRONG_USE, command[command.index("-o") + 1], "is an input, and would be overwritten")


def test_a_job_file_is_not_written_over_unless_asked(line: Line, folder: Path) -> None:
    refused(line, folder, ("init", "history.csv", "-o", "job.toml"), WRONG_USE, "job.toml exists", "--force")


@pytest.mark.parametrize("out", ["out.xlsx", "out", "out.csv.gz"])
def test_decisions_in_a_format_that_is_not_written(out: str, line: Line, folder: Path) -> None:
    refused(line, folder, (*DECIDE[:-1], out), WRONG_USE, out)


# A disk that is full


@pytest.fixture
def small_disk(folder: Path) -> Iterator[Path]:
    """A file system of 64 kilobytes, if one may be mounted."""
    place = folder / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)]
    if os.geteuid() or not shutil.which("mount") or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.no_cover
@pytest.mark.parametrize(
    "command",
    [
        DECIDE,
        (*DECIDE[:-1], "out.parquet"),
        (*DECIDE[:-1], "out.arrow"),
        FIT,
        REPORT,
    ],
    ids=str,
)
def test_a_disk_that_is_nearly_full(command: tuple[str, ...], line: Line, folder: Path) -> None:
    assert line(*command).code == 0  # what is compiled or drawn for the first time is kept on disk too
    (folder / command[-1]).unlink()
    with disk_of(3000):
        refused(line, folder, command, FAILED, "cannot write ", command[-1], "Nothing was written")


def test_a_disk_that_is_nearly_full_for_a_job_file(line: Line, folder: Path) -> None:
    command = ("init", "new.csv", "--labels", "y_*", "--force", "-o", "out.toml")
    with disk_of(500):
        refused(line, folder, command, FAILED, "cannot write ", "out.toml", "Nothing was written")


@pytest.mark.parametrize("command", [CHECK, FIT, AUDIT, REPORT, DECIDE], ids=lambda command: command[0])
def test_a_disk_without_room_for_anything(command: tuple[str, ...], line: Line, folder: Path) -> None:
    """Not even for what is needed on the way."""
    assert line(*command).code == 0
    if "-o" in command:
        (folder / command[-1]).unlink()
    with disk_of(30):
        refused(line, folder, command, FAILED, "File too large")


@pytest.mark.parametrize("end", ["csv", "parquet", "arrow"])
def test_a_file_system_that_fills_up(end: str, line: Line, folder: Path, small_disk: Path) -> None:
    many = pd.concat([NEW] * 40, ignore_index=True)
    write_table(many.assign(day=np.arange(len(many)), a_0=np.linspace(0, 1, len(many))), folder / "new.csv")
    out = small_disk / f"out.{end}"
    for older in (None, OLD):
        if older is not None:
            out.write_bytes(older)
        before = contents(folder)
        require_line(line(*DECIDE[:-1], str(out)), FAILED, f"cannot write {out}", "No space left on device")
        assert contents(folder) == before


def test_a_file_system_that_fills_up_with_a_report(line: Line, folder: Path, small_disk: Path) -> None:
    out = small_disk / "out.html"
    require_line(line(*REPORT[:-1], str(out)), FAILED, f"cannot write {out}", "No space left on device")
    assert list(small_disk.iterdir()) == []
