"""The house in CONTRIBUTING.md: rooms, arrows, and the way of a fit, a decision and an audit through them.

``python docs/house.py`` compares the section with the code; with ``--write`` it rewrites the section. Rooms come from
the layers of the import contract, arrows from the imports, and the ways from tracing one small run.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from difflib import unified_diff
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import grimp
import numpy as np

import optensemble as oe

ROOT = Path(__file__).parents[1]
PACKAGE = Path(oe.__file__).parent
PAGE = ROOT / "CONTRIBUTING.md"
BEGIN, END = "<!-- house: written by `python docs/house.py --write` -->", "<!-- /house -->"
WALKS = ("fit", "decide", "audit")

_SECTION = re.compile(f"(?<={re.escape(BEGIN)}\n).*?(?={re.escape(END)})", re.DOTALL)

Arrows = set[tuple[str, str]]


class House(NamedTuple):
    """The rooms by floor, the top floor first, and who imports whom."""

    floors: list[list[str]]
    arrows: Arrows
    exceptions: Arrows
    """Arrows that go up, which the contract allows by name."""

    @property
    def rooms(self) -> list[str]:
        """All rooms, the top floor first."""
        return [room for floor in self.floors for room in floor]


def read_house(pyproject: Path = ROOT / "pyproject.toml") -> House:
    """Return the rooms of the import contract and the imports between them."""
    linter = tomllib.loads(pyproject.read_text(encoding="utf-8"))["tool"]["importlinter"]
    contract = next(each for each in linter["contracts"] if each["type"] == "layers")
    floors = [[_room(name) for name in re.split(r"\s*[|:]\s*", layer)] for layer in contract["layers"]]
    exceptions = {_between(*pair.split(" -> ")) for pair in contract.get("ignore_imports", ())}
    return House([floor for floor in floors if floor != ["__main__"]], _imports(), exceptions)


def _imports() -> Arrows:
    graph = grimp.build_graph(oe.__name__, exclude_type_checking_imports=True, cache_dir=None)
    pairs = {_between(by, of) for by in graph.modules for of in graph.find_modules_directly_imported_by(by)}
    return {(by, of) for by, of in pairs if by != of and by not in ("", "__main__")}


def _between(importer: str, imported: str) -> tuple[str, str]:
    return _room(importer), _room(imported)


def _room(module: str) -> str:
    """Return the room of a module: "" is the package itself, which hands out the public names."""
    return module.strip().removeprefix(oe.__name__).lstrip(".").partition(".")[0]


# The picture


def reduced(arrows: Arrows) -> Arrows:
    """Leave out every arrow that a longer way implies."""
    return {(by, of) for by, of in arrows if not any(_leads(arrows, step, of) for step in _next(arrows, by) - {of})}


def _next(arrows: Arrows, room: str) -> set[str]:
    return {of for by, of in arrows if by == room}


def _leads(arrows: Arrows, start: str, end: str) -> bool:
    return start == end or any(_leads(arrows, step, end) for step in _next(arrows, start))


def picture(house: House) -> list[str]:
    """Draw the rooms as a Mermaid flowchart."""
    order = {room: number for number, room in enumerate(house.rooms)}
    arrows = reduced({(by, of) for by, of in house.arrows - house.exceptions if of})
    lines = [f"    {by} --> {of}" for by, of in sorted(arrows, key=lambda pair: (order[pair[0]], order[pair[1]]))]
    up = ", ".join(f"`{by}` → `{of}`" for by, of in sorted(house.arrows & house.exceptions))
    allowed = f"The contract lets these imports go up, inside a function: {up}." if up else "No import goes up."
    return ["```mermaid", "flowchart TD", *lines, "```", "", allowed]


# The table


def table(house: House) -> list[str]:
    """List what each room holds and which rooms it imports."""
    names = {"": "the public names", **{room: room for room in house.rooms}}
    rows = [_row(room, [names[of] for of in names if (room, of) in house.arrows]) for room in house.rooms]
    return ["| room | what it is | modules | imports |", "|---|---|---|---|", *rows]


def _row(room: str, used: list[str]) -> str:
    folder = PACKAGE / room
    path = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    parts = {part.relative_to(folder) for part in folder.rglob("*.py") if part.stem != "__init__"}
    names = sorted({part.stem if len(part.parts) == 1 else f"{part.parts[0]}/" for part in parts})
    link = f"[`{room}`](src/optensemble/{room if folder.is_dir() else path.name})"
    return f"| {link} | {_summary(path)} | {', '.join(names) or '–'} | {', '.join(used) or '–'} |"


def _summary(path: Path) -> str:
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return " ".join(text.split("\n\n")[0].split()).replace("``", "`").rstrip(".").replace("|", "\\|")


# The ways


def walks(house: House) -> list[str]:
    """Say which modules a fit, a decision and an audit come to, in the order of first visit."""
    _run(lambda name, call: call())  # imports and caches are made here, and are no part of the way
    found: dict[str, list[str]] = {}

    def trace(name: str, call: Callable[[], object]) -> None:
        with _visits() as found[name]:
            call()

    _run(trace)
    return [line for name in WALKS for line in _walk(name, found[name], house)]


def _run(meet: Callable[[str, Callable[[], object]], object]) -> None:
    """Make one small ensemble fit, decide and audit, each by way of ``meet``."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    Y = X + rng.normal(scale=0.5, size=X.shape)
    models = [("east", lambda X: X * [1, 0]), ("west", lambda X: X * [0, 1])]
    ensemble = oe.DecisionEnsemble(models=models, feasible=oe.feasible.Simplex(2))
    meet("fit", lambda: ensemble.fit(X[:300], Y[:300]))
    meet("decide", lambda: ensemble.decide(X[300:]))
    meet("audit", lambda: ensemble.audit(X[300:], Y[300:]))


@contextmanager
def _visits() -> Iterator[list[str]]:
    """Collect the modules of the package whose functions are called, in the order of first visit."""
    found: dict[str, None] = {}
    compiled = _compiled()

    def note(frame: FrameType, event: str, _: Any) -> None:
        path, module = Path(frame.f_code.co_filename), str(frame.f_globals.get("__name__"))
        if event == "call" and path.is_relative_to(PACKAGE) and frame.f_code not in compiled:
            found.setdefault(module)

    modules: list[str] = []
    sys.setprofile(note)
    try:
        yield modules
    finally:
        sys.setprofile(None)
        modules += found


def _compiled() -> set[CodeType]:
    """Return the code of compiled functions, which some versions of Python show to a profiler and others do not."""
    ours = [vars(module) for name, module in list(sys.modules.items()) if name.startswith(oe.__name__)]
    functions = [getattr(value, "py_func", None) for names in ours for value in list(names.values())]
    return {function.__code__ for function in functions if function is not None}


def _walk(name: str, modules: list[str], house: House) -> list[str]:
    by_room: dict[str, list[str]] = {}
    for module in modules:
        by_room.setdefault(_room(module), []).append(module.rpartition(".")[2])
    stations = [f"`{room}`" + _inside(room, inside) for room, inside in by_room.items() if room in house.rooms]
    return ["", f"`{name}` comes to {len(modules)} modules: {' → '.join(stations)}."]


def _inside(room: str, modules: list[str]) -> str:
    named = [module for module in modules if module != room]
    return f" ({', '.join(named)})" if named else ""


def section() -> str:
    """Return the section as it should be."""
    house = read_house()
    return "\n".join([*picture(house), "", *table(house), *walks(house)]) + "\n"


def main(arguments: list[str], page: Path = PAGE) -> int:
    """Compare the section, or write it; return 1 if it was not as it should be."""
    before = page.read_text(encoding="utf-8")
    new = section()
    after = _SECTION.sub(lambda _: new, before)
    if "--write" in arguments:
        page.write_text(after, encoding="utf-8")
        return 0
    lines = (before.splitlines(), after.splitlines())
    sys.stdout.write("".join(f"{line}\n" for line in unified_diff(*lines, page.name, "the code", lineterm="")))
    return int(before != after)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
