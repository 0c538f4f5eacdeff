"""How the package is built: its shape, the modules a call goes through, what is solved, and how long a start takes.

    python benchmarks/construction.py shape
    python benchmarks/construction.py visits counts --src OTHER/src
    python benchmarks/construction.py times --before OTHER/src

``shape`` reads the source. A name counts as *defined twice* if it is a function, a class or an assignment at the top
of two modules, and their definitions differ; imports, overloads and names with two underscores on both sides do not
count. Public and private names are counted apart.

``visits`` counts the modules of which a Python function is called, from the outermost call to its return. What runs
because a module is imported does not count. A compiled function counts where Python calls it.

``counts`` counts calls of ``argmax`` (each solves a batch of rows), the rows solved, and the answers asked of members,
with two models, for one batch.

``times`` are medians of whole processes that take turns. A start is told as a multiple of ``import numpy``.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "optensemble"
MOST_LINES, MOST_PARAMETERS = 400, 7
COMPILERS = ("njit", "inner", "maker", "jit", "overload", "intrinsic", "cfunc")
STARTS, RUNS = 7, 3
EXAMPLE = "staffing"
"""The example that takes the least time to fit."""

JOB = """
[data]
fit = "history.csv"
labels = "y_*"
[models]
a = "a_*"
b = "b_*"
[feasible]
kind = "simplex"
"""

WORLD = """
import numpy as np
import pandas as pd

def draw(n, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    columns = {"y": x + rng.normal(scale=0.5, size=(n, 3))}
    columns |= {name: x * known + 0.1 * rng.normal(size=(n, 3)) for name, known in (("a", [1, 1, 0]), ("b", [0, 1, 1]))}
    return pd.DataFrame({f"{name}_{j}": values[:, j] for name, values in columns.items() for j in range(3)})

history, later = draw(240, 0), draw(80, 1)
labels = ["y_0", "y_1", "y_2"]
"""
"""Two models that each know two coordinates of three."""

CALLS = """
import contextlib, io, json, sys

sys.argv[0] = "optensemble"

def command(*words):
    sys.argv[1:] = words
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        run_command()

def calls():
    import optensemble as oe
    models = [(name, oe.Columns([f"{name}_{j}" for j in range(3)])) for name in ("a", "b")]
    ensemble = oe.DecisionEnsemble(models, feasible=oe.feasible.Simplex(3))
    X, Y = later.drop(columns=labels), later[labels].to_numpy()
    yield "DecisionEnsemble.fit", lambda: ensemble.fit(history, history[labels].to_numpy())
    yield "decide", lambda: ensemble.decide(X)
    yield "audit", lambda: ensemble.audit(later, Y)
    yield "optensemble fit", lambda: command("fit", "job.toml", "--quiet")
    yield "optensemble decide", lambda: command("decide", "ensemble.oe", "later.csv", "-o", "decisions.csv", "--quiet")
    yield "optensemble audit", lambda: command("audit", "ensemble.oe", "later.csv", "--quiet")
    yield "optensemble report", lambda: command("report", "ensemble.oe", "later.csv", "--quiet")
"""

VISITS = """
import os, threading

import optensemble

root = os.path.dirname(os.path.abspath(optensemble.__file__))
importing, visited = threading.local(), set()

def watch(frame, event, _):
    code = frame.f_code
    if code.co_name == "<module>" and event in ("call", "return"):
        importing.depth = getattr(importing, "depth", 0) + (1 if event == "call" else -1)
    elif event == "call" and code.co_filename.startswith(root) and not getattr(importing, "depth", 0):
        visited.add(os.path.relpath(code.co_filename, root))

found = {}
for name, call in calls():
    visited.clear()
    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    found[name] = sorted(visited)
print(json.dumps(found))
"""

COUNTS = """
import optensemble as oe

tally = dict.fromkeys(("solves", "rows solved", "members asked"), 0)
plain_argmax, plain_predict = oe.feasible.FeasibleSet.argmax, oe.Columns.predict

def argmax(self, C, hint=None):
    tally["solves"] += 1
    tally["rows solved"] += len(C)
    return plain_argmax(self, C, hint)

def predict(self, X):
    tally["members asked"] += 1
    return plain_predict(self, X)

oe.feasible.FeasibleSet.argmax, oe.Columns.predict = argmax, predict
found = {}
for name, call in calls():
    tally.update(dict.fromkeys(tally, 0))
    call()
    found[name] = dict(tally)
print(json.dumps(found))
"""


# The source


class Module(NamedTuple):
    """A module of the package."""

    path: str
    lines: int
    tree: ast.Module


def read_modules(src: Path) -> list[Module]:
    """Read all modules of the package."""
    folder, found = src / PACKAGE, []
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        found.append(Module(path.relative_to(folder).as_posix(), len(text.splitlines()), ast.parse(text)))
    return found


def fullest_folder(modules: list[Module]) -> tuple[str, int]:
    """Return the folder with the most modules, and how many it has; ``__init__.py`` does not count."""
    paths = [Path(module.path) for module in modules]
    counts = Counter(path.parent.as_posix() for path in paths if path.name != "__init__.py")
    folder, count = counts.most_common(1)[0]
    return (PACKAGE if folder == "." else f"{PACKAGE}/{folder}"), count


def defined_names(statement: ast.stmt) -> Iterator[str]:
    """Go through the names that a statement defines."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        if not any("overload" in ast.unparse(decorator) for decorator in statement.decorator_list):
            yield statement.name
    elif isinstance(statement, ast.ClassDef):
        yield statement.name
    elif isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        for target in targets:
            yield from (node.id for node in ast.walk(target) if isinstance(node, ast.Name))


def repeated_names(modules: list[Module]) -> dict[str, list[str]]:
    """Return the names that are defined in two modules or more, not everywhere in the same way."""
    where: dict[str, dict[str, str]] = defaultdict(dict)
    for module in modules:
        for statement in module.tree.body:
            for name in defined_names(statement):
                if not (name.startswith("__") and name.endswith("__")):
                    where[name][module.path] = ast.dump(statement)
    return {name: list(places) for name, places in sorted(where.items()) if len(set(places.values())) > 1}


def option_types(modules: list[Module]) -> set[str]:
    """Return the names in the command line that stand for a type with an option or an argument."""
    statements = [node for module in modules if module.path.startswith("cli/") for node in module.tree.body]
    assigned = [node for node in statements if isinstance(node, ast.Assign) and _speaks_typer(node.value)]
    return {name for node in assigned for name in defined_names(node)}


def _speaks_typer(node: ast.expr) -> bool:
    return any(word in ast.unparse(node) for word in ("typer.Option", "typer.Argument"))


def parameters_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.arg]:
    """Return the parameters but for the object or class itself."""
    given = function.args
    everything = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    return [parameter for parameter in everything if parameter.arg not in ("self", "cls")]


def is_command(function: ast.FunctionDef | ast.AsyncFunctionDef, options: set[str]) -> bool:
    """Say whether a function of the command line is a command: its parameters are options or arguments."""
    notes = [parameter.annotation for parameter in parameters_of(function) if parameter.annotation is not None]
    return any(_speaks_typer(note) or ast.unparse(note) in options for note in notes)


def compiled_names(tree: ast.Module) -> set[str]:
    """Return the names of functions that are compiled: by a decorator, or handed to a compiler."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and any(_compiles(decorator) for decorator in node.decorator_list):
            found.add(node.name)
        elif isinstance(node, ast.Call) and _compiles(node.func):
            found |= {argument.id for argument in node.args if isinstance(argument, ast.Name)}
    return found


def _compiles(node: ast.expr) -> bool:
    called = node.func if isinstance(node, ast.Call) else node
    return ast.unparse(called).split(".")[-1].lstrip("_") in COMPILERS


def long_signatures(modules: list[Module]) -> list[str]:
    """Return functions of many parameters that are no constructors, no commands and not compiled."""
    options, found = option_types(modules), []
    for module in modules:
        compiled = compiled_names(module.tree)
        for node in ast.walk(module.tree):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            count = len(parameters_of(node))
            command = module.path.startswith("cli/") and is_command(node, options)
            if count > MOST_PARAMETERS and node.name != "__init__" and node.name not in compiled and not command:
                found.append(f"{module.path}:{node.name} ({count})")
    return found


def show_shape(src: Path, console: Console, names: bool) -> None:
    """Print the shape of the source."""
    modules = read_modules(src)
    folder, count = fullest_folder(modules)
    longest = max(modules, key=lambda module: module.lines)
    too_long = [f"{module.path} ({module.lines})" for module in modules if module.lines > MOST_LINES]
    repeated, signatures = repeated_names(modules), long_signatures(modules)
    public = [name for name in repeated if not name.startswith("_")]
    table = Table("what", "how much", title="Shape")
    table.add_row("modules in all", str(len(modules)))
    table.add_row("modules in the fullest folder", f"{count} in {folder}")
    table.add_row("the longest module", f"{longest.lines} lines, {longest.path}")
    table.add_row(f"modules above {MOST_LINES} lines", f"{len(too_long)}: {', '.join(too_long)}")
    table.add_row(f"functions of more than {MOST_PARAMETERS} parameters", f"{len(signatures)}: {', '.join(signatures)}")
    table.add_row("public names defined twice", str(len(public)))
    table.add_row("private names defined twice", str(len(repeated) - len(public)))
    console.print(table)
    if names:
        for name, places in repeated.items():
            console.print(f"{name}: {', '.join(places)}", highlight=False)


# Processes


def environment_of(src: Path) -> dict[str, str]:
    """Return the environment in which the package is that of a folder."""
    return os.environ | {"PYTHONPATH": str(src), "PYTHONWARNINGS": "ignore"}


def entry_point(src: Path) -> str:
    """Return code that runs the command line as ``run_command``, as it was declared beside the source."""
    declared = f"{PACKAGE}.cli:main"
    if (project := src.parent / "pyproject.toml").exists():
        declared = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["scripts"][PACKAGE]
    module, function = declared.split(":")
    return f"def run_command():\n    from {module} import {function}\n    {function}()\n"


def watch_calls(src: Path, watching: str) -> dict[str, object]:
    """Run all calls in a process that watches them; once before, so that everything is compiled."""
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "job.toml").write_text(JOB, encoding="utf-8")
        begin = WORLD + 'history.to_csv("history.csv", index=False)\nlater.to_csv("later.csv", index=False)\n'
        warm = begin + entry_point(src) + CALLS + "for _, call in calls():\n    call()\n"
        code = begin + entry_point(src) + CALLS + watching
        for text in (warm, code):
            done = subprocess.run(
                [sys.executable, "-c", text],
                cwd=name,
                env=environment_of(src),
                check=True,
                capture_output=True,
                text=True,
            )
        found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


def show_visits(src: Path, console: Console, names: bool) -> None:
    """Print through how many modules each call goes."""
    table = Table("call", "modules", title="Modules visited")
    found = watch_calls(src, VISITS)
    for call, modules in found.items():
        assert isinstance(modules, list)
        table.add_row(call, str(len(modules)))
    console.print(table)
    if names:
        for call, modules in found.items():
            console.print(f"{call}: {modules}", highlight=False)


def show_counts(src: Path, console: Console) -> None:
    """Print how much is solved and asked by each call."""
    table = Table("call", "solves", "rows solved", "members asked", title="Work")
    for call, tally in watch_calls(src, COUNTS).items():
        assert isinstance(tally, dict)
        table.add_row(call, *(f"{tally[what]:,}" for what in ("solves", "rows solved", "members asked")))
    console.print(table)


# Times


Medians = dict[tuple[str, str], float]


class Process(NamedTuple):
    """A process to time: what it is called, its code, its words, and what it finds in its environment."""

    name: str
    code: str
    words: tuple[str, ...] = ()
    extra: tuple[tuple[str, str], ...] = ()


def seconds_of(process: Process, src: Path, folder: Path) -> float:
    """Return how long a process takes."""
    environment = environment_of(src) | dict(process.extra)
    with tempfile.TemporaryDirectory() as place:
        program = Path(place) / PACKAGE  # the command knows itself by the name of its file
        program.write_text(process.code)
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, str(program), *process.words],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        seconds = time.perf_counter() - start
    if done.returncode not in (0, 3):  # an audit that refutes a promise ends with 3
        raise SystemExit(f"{process.name} failed: {done.stderr}")
    return seconds


def command_code(src: Path) -> str:
    """Return the code of a process that is the command line."""
    return f"import sys\nsys.argv[0] = {PACKAGE!r}\n{entry_point(src)}run_command()\n"


def starts(src: Path) -> list[Process]:
    """Return the processes that do little but start."""
    code = command_code(src)
    completion = (("_OPTENSEMBLE_COMPLETE", "complete_bash"), ("COMP_WORDS", f"{PACKAGE} "), ("COMP_CWORD", "1"))
    return [
        Process("import numpy", "import numpy"),
        Process(f"import {PACKAGE}", f"import {PACKAGE}"),
        Process(f"{PACKAGE} --help", code, ("--help",)),
        Process(f"{PACKAGE} --version", code, ("--version",)),
        Process("a completion", code, (), completion),
    ]


def uses(src: Path) -> list[Process]:
    """Return the processes that use the example."""
    code = command_code(src)
    return [
        Process("fit", code, ("fit", "job.toml", "--quiet")),
        Process("decide", code, ("decide", "ensemble.oe", "new.csv", "-o", "decisions.csv", "--quiet")),
        Process("audit", code, ("audit", "ensemble.oe", "later.csv", "--quiet")),
    ]


def take_turns(
    plan: dict[str, list[Process]], sources: dict[str, Path], folders: dict[str, Path], runs: int
) -> Medians:
    """Return the median of every process, of every version; they take turns, and the first turn does not count."""
    seconds: dict[tuple[str, str], list[float]] = defaultdict(list)
    for _ in range(runs + 1):
        for number in range(len(next(iter(plan.values())))):
            for version, processes in plan.items():
                process = processes[number]
                taken = seconds_of(process, sources[version], folders[version])
                seconds[version, process.name].append(taken)
    return {key: statistics.median(taken[1:]) for key, taken in seconds.items()}


def time_table(title: str, medians: Medians, sources: dict[str, Path], unit: str | None) -> Table:
    """Return seconds of every version, as multiples of one process if that is named, and old over new."""
    table = Table("process", title=title)
    for version in sources:
        table.add_column(f"{version}, s", justify="right")
        if unit is not None:
            table.add_column(f"{version} / {unit}", justify="right")
    if len(sources) > 1:
        table.add_column("now / before", justify="right")
    for name in dict.fromkeys(name for _, name in medians):
        row = [name]
        for version in sources:
            row.append(f"{medians[version, name]:.3f}")
            row += [] if unit is None else [f"{medians[version, name] / medians[version, unit]:.2f}"]
        row += [f"{medians['now', name] / medians['before', name]:.2f}"] if len(sources) > 1 else []
        table.add_row(*row)
    return table


def show_times(sources: dict[str, Path], console: Console) -> None:
    """Time starts and uses, of two versions in turns if there are two."""
    with tempfile.TemporaryDirectory() as name:
        folders = {version: Path(name) / version for version in sources}
        for version, folder in folders.items():
            shutil.copytree(ROOT / "examples" / EXAMPLE, folder)
            command = [sys.executable, "make_data.py"]
            subprocess.run(command, cwd=folder, env=environment_of(sources[version]), check=True, capture_output=True)
        begun = take_turns({version: starts(src) for version, src in sources.items()}, sources, folders, STARTS)
        console.print(time_table(f"Starts, median of {STARTS}", begun, sources, "import numpy"))
        used = take_turns({version: uses(src) for version, src in sources.items()}, sources, folders, RUNS)
        console.print(time_table(f"The example {EXAMPLE}, median of {RUNS}", used, sources, None))


def main() -> None:
    """Print the sections that were asked for."""
    sections = ("shape", "visits", "counts", "times")
    parser = argparse.ArgumentParser(description=textwrap.shorten(__doc__ or "", 120))
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"{', '.join(sections)}; all unless given")
    parser.add_argument("--src", type=Path, default=ROOT / "src", help="the folder that holds the package")
    parser.add_argument("--before", type=Path, help="the same of another version, to be timed beside it")
    parser.add_argument("--names", action="store_true", help="list names defined twice, and modules visited")
    options = parser.parse_args()
    if unknown := set(options.sections) - set(sections):
        parser.error(f"there is no section {sorted(unknown)[0]}; there are {', '.join(sections)}")
    asked, console, src = options.sections or sections, Console(), options.src.resolve()
    if "shape" in asked:
        show_shape(src, console, options.names)
    if "visits" in asked:
        show_visits(src, console, options.names)
    if "counts" in asked:
        show_counts(src, console)
    if "times" in asked:
        earlier = {} if options.before is None else {"before": options.before.resolve()}
        show_times(earlier | {"now": src}, console)


if __name__ == "__main__":
    main()
