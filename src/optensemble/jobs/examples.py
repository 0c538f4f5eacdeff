"""Examples that come with the package: tables and a job file that needs no filling in."""

from __future__ import annotations

import csv
import gzip
import io
import tomllib
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from optensemble._core.atomic_files import replace
from optensemble._core.suggestions import did_you_mean
from optensemble.exceptions import FileError, InputError
from optensemble.jobs.roles import find_labels

EXAMPLES = {
    "battery": "when to store power and when to sell it, 24 hours a day",
    "portfolio": "weights of six assets, week by week, net of the cost of trading",
    "routes": "a route across town, trip by trip, with closed roads",
    "staffing": "which of ten kiosks to open, day by day",
}
"""The decision of each example."""

JOB, HISTORY, NEW, LATER = "job.toml", "history.csv", "new.csv", "later.csv"
_FOLDER = "example_files"


@dataclass(frozen=True)
class WrittenExample:
    """An example in a folder: its name, its job file and its tables."""

    name: str
    job: Path
    tables: tuple[Path, ...]

    @property
    def commands(self) -> list[str]:
        """The commands to go on with, in the folder of the job file."""
        return [
            f"optensemble check {self.job.name}",
            f"optensemble fit {self.job.name} -o ensemble.oe",
            f"optensemble decide ensemble.oe {NEW} -o decisions.csv",
            f"optensemble report ensemble.oe {LATER} -o report.html",
        ]


def write_example(name: str, job: Path, force: bool = False) -> WrittenExample:
    """Write the tables of an example and its job file into one folder, which is made if there is none.

    Raises ``InputError`` if there is no such example, if ``job`` is no name of a job file, or if a file exists and
    ``force`` is not given.
    """
    if name not in EXAMPLES:
        raise InputError(
            f"there is no example {name!r}.{did_you_mean(name, EXAMPLES)} There are {', '.join(EXAMPLES)}."
        )
    if job.suffix != ".toml" or job.is_dir():
        raise InputError(f"{job} is no name of a job file. Give -o one beside which the tables go: {name}/{JOB}.")
    contents = {(job if part == JOB else job.parent / part): content for part, content in _contents(name).items()}
    there = [str(path) for path in contents if path.exists()]
    if there and not force:
        what = f"{', '.join(there)} exist{'s' if len(there) == 1 else ''}"
        raise InputError(f"{what}. Give -o a file in another folder, such as {name}/{JOB}, or --force to overwrite.")
    _make_folder(job.parent)
    for path, content in contents.items():
        replace(path, content)
    return WrittenExample(name, job, tuple(path for path in contents if path != job))


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"cannot make the folder {folder}: {error.strerror or error}. Give -o another one.") from error


def _contents(name: str) -> dict[str, bytes]:
    """Return the files of an example, the job file last; new rows are the later ones without labels."""
    packed = {part.name: part.read_bytes() for part in files(__package__).joinpath(_FOLDER, name).iterdir()}
    job, history, later = packed.pop(JOB), *(gzip.decompress(packed.pop(f"{table}.gz")) for table in (HISTORY, LATER))
    return {HISTORY: history, NEW: _without_labels(later, job), LATER: later, **packed, JOB: job}


def _without_labels(table: bytes, job: bytes) -> bytes:
    rows = list(csv.reader(io.StringIO(table.decode())))
    pattern = tomllib.loads(job.decode())["data"]["labels"]
    labels, _ = find_labels(pattern, rows[0], "labels", LATER)
    kept = [number for number, column in enumerate(rows[0]) if column not in labels]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([row[number] for number in kept] for row in rows)
    return text.getvalue().encode()
