"""The command line in this process, and in one of its own where signals and terminals matter."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest

from optensemble import cli
from tests.interrupts import heed_interrupts

FORCED = {"FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "GITHUB_ACTIONS", "COLUMNS"}
PLAIN = {name: value for name, value in os.environ.items() if name not in FORCED}


class Said(NamedTuple):
    """Exit code and output of a command."""

    code: int | str | None
    out: str
    err: str


@dataclass(frozen=True)
class Line:
    """The command line in this process; what warns, warns as it would for a user."""

    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]

    def __call__(self, *arguments: str | Path) -> Said:
        self.monkeypatch.setattr(sys, "argv", ["optensemble", *map(str, arguments)])
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            with pytest.raises(SystemExit) as caught:
                cli.main()
        return Said(caught.value.code, *self.capsys.readouterr())


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "optensemble", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        env=PLAIN,
        cwd=folder,
        preexec_fn=heed_interrupts,
    )


def finish(process: subprocess.Popen[str]) -> Said:
    try:
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
    return Said(process.returncode, out, err)


@contextlib.contextmanager
def disk_of(limit: int) -> Iterator[None]:
    """Let no file grow beyond this number of bytes, as on a disk that is nearly full."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
