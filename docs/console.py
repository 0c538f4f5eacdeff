"""Run the console examples of the pages: what is printed must be what a page shows.

``python docs/console.py`` says where it is not; with ``--write`` it puts what was printed into the pages.

The examples of the first page run in a new folder with the files of ``docs/start``; other pages go on in a copy of what
that leaves. A block ``toml`` that begins with ``[feasible]`` takes the place of this section in ``job.toml``. A block
``shell`` that begins with ``optensemble serve`` starts a server, for the rest of the page; the port 8000 stands for one
that is free.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from difflib import unified_diff
from pathlib import Path

DOCS = Path(__file__).parent
START = "index.md"
PAGES = (
    *(START, "command_line.md", "howto/time_series.md", "howto/every_day.md", "howto/by_row.md"),
    *("howto/deployment.md", "howto/service.md", "howto/scheduling.md"),
)
PORT = "8000"
STARTS_WITHIN = 60.0

_BLOCK = re.compile(r"^```(console|toml|shell)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_DIGITS = re.compile(r"\d+\.\d{7,}")
_SECTION = re.compile(r"^\[feasible\].*?(?=^\[)", re.MULTILINE | re.DOTALL)


class Shell:
    """Runs commands one by one in a folder, and remembers how the last one ended.

    ``commands`` is a folder that comes first on the path; by default that of this Python.
    """

    def __init__(self, folder: Path, commands: Path | None = None) -> None:
        self.folder, self.code, self.port = folder, 0, PORT
        self._server: subprocess.Popen[bytes] | None = None
        first = [] if commands is None else [str(commands)]
        path = os.pathsep.join([*first, str(Path(sys.executable).parent), os.environ["PATH"]])
        self._environment = {**os.environ, "PATH": path, "NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "110"}

    def run(self, command: str) -> str:
        """Return what a command prints, errors included."""
        script = f"(exit {self.code})\n{command.replace(PORT, self.port)}"
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=self.folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            check=False,
        )
        self.code = done.returncode
        if "Traceback (most recent call last)" in done.stdout:
            raise RuntimeError(f"{command!r} failed, which no page is to show:\n{done.stdout}")
        printed = done.stdout.replace(self.port, PORT)
        return "\n".join(line.rstrip() for line in printed.splitlines()).strip("\n")

    def serve(self, command: str) -> None:
        """Start a server, which answers once this returns."""
        with socket.socket() as made:
            made.bind(("127.0.0.1", 0))
            self.port = str(made.getsockname()[1])
        self._environment["OPTENSEMBLE_URL"] = f"http://127.0.0.1:{self.port}"
        given = [*shlex.split(command)[1:], "--port", self.port, "--quiet"]
        self._server = subprocess.Popen([sys.executable, "-m", "optensemble", *given], cwd=self.folder)
        until = time.monotonic() + STARTS_WITHIN
        while time.monotonic() < until:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=5):
                    return
            except OSError:
                time.sleep(0.05)
        raise RuntimeError(f"{command!r} did not start")

    def close(self) -> None:
        """Stop the server, if there is one."""
        if self._server is not None:
            self._server.terminate()
            self._server.wait(60)


def played(text: str, shell: Shell) -> str:
    """Return a page with what its commands print now."""

    def again(block: re.Match[str]) -> str:
        kind, body = block.groups()
        if kind == "toml":
            _put_into_job(body, shell.folder / "job.toml")
        if kind == "shell" and body.startswith("optensemble serve"):
            shell.serve(body.strip())
        if kind != "console":
            return block[0]
        return f"```console\n{''.join(_answered(body, shell))}```"

    return _BLOCK.sub(again, text)


def _answered(body: str, shell: Shell) -> Iterator[str]:
    for line in body.splitlines():
        if line.startswith("$ "):
            printed = shell.run(line[2:])
            yield f"{line}\n" + (f"{printed}\n" if printed else "")


def _put_into_job(section: str, job: Path) -> None:
    if section.startswith("[feasible]") and job.exists():
        job.write_text(_SECTION.sub(lambda _: f"{section}\n", job.read_text(encoding="utf-8")), encoding="utf-8")


def play_all(folder: Path, commands: Path | None = None) -> Iterator[tuple[Path, str, str]]:
    """Yield every page, as it is and as it should be."""
    begun = folder / "start"
    shutil.copytree(DOCS / "start", begun)
    for name in PAGES:
        page = DOCS / name
        text = page.read_text(encoding="utf-8")
        place = begun if name == START else Path(shutil.copytree(begun, folder / page.stem))
        for client in (DOCS / "deploy").glob("client.*"):
            shutil.copy(client, place)
        with closing(Shell(place, commands)) as shell:
            yield page, text, played(text, shell)


def _rounded(text: str) -> str:
    """Return a text whose numbers have no digits that another machine may compute otherwise."""
    return _DIGITS.sub(lambda number: f"{float(number[0]):.6f}", text)


def main(arguments: list[str]) -> int:
    """Compare all pages, or write them; return 1 if one was not as it should be."""
    differs = False
    with tempfile.TemporaryDirectory() as folder:
        for page, before, after in play_all(Path(folder)):
            if "--write" in arguments:
                page.write_text(after, encoding="utf-8")
            elif _rounded(before) != _rounded(after):
                differs = True
                lines = (before.splitlines(), after.splitlines())
                sys.stdout.write("\n".join(unified_diff(*lines, str(page), "printed", lineterm="")) + "\n")
    return int(differs)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
