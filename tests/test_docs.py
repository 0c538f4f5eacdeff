from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from pkgutil import resolve_name

import pytest
import typer

import optensemble as oe
from optensemble.cli import app
from optensemble.jobs import job, sets
from optensemble.jobs.examples import EXAMPLES
from optensemble.report.terms import ReportTerms
from tests.cli.warm_commands import warm_commands

pytestmark = [pytest.mark.slow, pytest.mark.no_cover]

README = Path(__file__).parents[1] / "README.md"
DOCS = README.parent / "docs"
CONSOLE = runpy.run_path(str(DOCS / "console.py"))
LOADED = re.compile(r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"([^\"]*)\"|<link\b[^>]*\bhref=\"([^\"]*)\"")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as strictly as can be, by ``make docs`` already or here."""
    if "BUILT_SITE" in os.environ:
        return Path(os.environ["BUILT_SITE"]).absolute()
    pytest.importorskip("sphinx", reason="the group `docs` is not installed")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "-n", "--keep-going", str(DOCS), str(folder)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return folder


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, tuple[str, str]]]:
    """Where the examples were run, and every page as it is and as it should be."""
    folder = tmp_path_factory.mktemp("console")
    with warm_commands(tmp_path_factory.mktemp("bin")) as commands:
        played = CONSOLE["play_all"](folder, commands)
        return folder / "start", {page.name: (shown, real) for page, shown, real in played}


def test_what_commands_print_is_what_pages_show(pages: tuple[Path, dict[str, tuple[str, str]]]) -> None:
    for shown, real in pages[1].values():
        assert CONSOLE["_rounded"](shown) == CONSOLE["_rounded"](real), "python docs/console.py --write renews it"


def test_a_page_that_shows_something_else_is_found(tmp_path: Path) -> None:
    shell, page = CONSOLE["Shell"](tmp_path), "```console\n$ echo one; false\ntwo\n$ echo $?\n0\n```\n"
    assert CONSOLE["played"](page, shell) == page.replace("two", "one").replace("0", "1")


def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    found = list(site.rglob("*.html"))
    assert len(found) > 15
    for page in found:
        for source, link in LOADED.findall(page.read_text(encoding="utf-8")):
            assert not re.match(r"(\w+:)?//", source or link), page
    for sheet in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(https?:)?//|@import", sheet.read_text(encoding="utf-8")), sheet


def test_every_public_name_is_documented(site: Path) -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in (site / "api").glob("*.html"))
    modules = {"optensemble": oe, **{f"optensemble.{name}": getattr(oe, name) for name in _modules()}}
    for module, things in modules.items():
        for name in set(things.__all__) - _modules():
            assert re.search(rf'id="{re.escape(module)}(\.[\w.]+)?\.{name}"', text), f"{module}.{name}"


def _modules() -> set[str]:
    return {name for name in oe.__all__ if isinstance(getattr(oe, name), type(oe))}


def test_every_option_of_every_command_is_told() -> None:
    text = (DOCS / "command_line.md").read_text(encoding="utf-8")
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        _, _, rest = text.partition(f"\n### {name}\n")
        assert rest, name
        section = rest.split("\n## ")[0].split("\n### ")[0]
        for option in command.params:
            if name != "reproduce" and option.param_type_name == "option":
                where = text if option.opts[0] in ("--json", "--quiet", "--help") else section
                assert f"`{option.opts[0]}" in where, (name, option.opts)


def test_every_key_of_a_job_file_is_told() -> None:
    text = (DOCS / "command_line.md").read_text(encoding="utf-8")
    keys = {
        *job._DATA,
        *vars(ReportTerms()),
        *(key for options in job.OPTIONS.values() for key in options),
        *sets.SET_KINDS,
    }
    for key in keys:
        assert f"`{key}`" in text, key
    for section in job._SECTIONS:
        assert f"`[{section}]`" in text, section


COMMANDS = {
    "init": "init history.csv --labels price_* -o other.toml",
    "check": "check job.toml",
    "fit": "fit job.toml -o other.oe",
    "decide": "decide ensemble.oe new.csv -o other.csv",
    "audit": "audit ensemble.oe later.csv",
    "update": "update ensemble.oe later.csv -o other.oe",
    "refit": "refit ensemble.oe --with later.csv -o other.oe",
    "explain": "explain ensemble.oe new.csv --row 3",
    "report": "report ensemble.oe later.csv -o other.html",
}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_keys_of_json_are_those_that_are_told(
    name: str, pages: tuple[Path, dict[str, tuple[str, str]]], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(pages[0], tmp_path / "start"))
    document = json.loads(CONSOLE["Shell"](folder).run(f"optensemble {COMMANDS[name]} --json"))
    _, _, told = (DOCS / "command_line.md").read_text(encoding="utf-8").partition("\n## JSON\n")
    row = next(line for line in told.splitlines() if line.startswith(f"| `{name}` |"))
    without_links = re.sub(r"\[[^\]]*\]\([^)]*\)", "", row.split("|")[2].split(";")[0])
    assert re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", without_links)) == list(document)


def test_every_picture_is_shown_and_described() -> None:
    drawn = set(runpy.run_path(str(DOCS / "pictures.py"))["PICTURES"])
    text = "".join(page.read_text(encoding="utf-8") for page in DOCS.rglob("*.md"))
    shown = {name: words for words, name in re.findall(r"!\[([^\]]+)\]\((?:\.\./)?images/(\w+)\.svg\)", text)}
    assert set(shown) == drawn == {path.stem for path in (DOCS / "images").glob("*.svg")}
    assert all(len(words) > 60 for words in shown.values())


def test_every_example_has_a_page_with_a_picture_of_its_report() -> None:
    for name in EXAMPLES:
        page = DOCS / "examples" / f"{name}.md"
        pictures = re.findall(r"!\[([^\]]+)\]\(([^)]+)\)", page.read_text(encoding="utf-8"))
        assert [path for _, path in pictures] == [f"../images/report_{name}.png"], "make pictures takes it"
        assert len(pictures[0][0]) > 60
        assert (page.parent / pictures[0][1]).stat().st_size < 150_000


def test_the_readme_is_short_and_shows_one_picture() -> None:
    text = README.read_text(encoding="utf-8")
    assert len(text.encode()) <= 8192
    pictures = re.findall(r"!\[([^\]]+)\]\(([^)]+)\)", text)
    front = runpy.run_path(str(DOCS / "pictures.py"))["FRONT"]
    assert [path for _, path in pictures] == [f"docs/images/{front}.png"]
    assert (README.parent / pictures[0][1]).stat().st_size < 100_000
    assert all(f"$ optensemble {name} " in text for name in ("init", "check", "fit", "decide", "audit", "report"))


@pytest.mark.filterwarnings("ignore::optensemble.exceptions.NotConvergedWarning")
def test_the_figures_beside_the_front_picture_are_those_of_its_run() -> None:
    told = runpy.run_path(str(DOCS / "pictures.py"))["promised_realised_in_numbers"]()
    kept, worlds, least, most, paper, _ = re.findall(r"\d+(?:\.\d)?", told)
    for page, held in ((README, f"{kept} of these {worlds}"), (DOCS / "out_of_sample.md", f"{kept} of {worlds}")):
        text = " ".join(page.read_text(encoding="utf-8").split())
        for words in (held, f"{least} to {most} times", f"{paper} times or more"):
            assert words in text, (page.name, words)


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "examples/README.md"])
def test_links_outside_the_site_lead_somewhere(page: str) -> None:
    path = README.parent / page
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8"))
    assert links
    for link in links:
        assert (path.parent / link).exists(), link


@pytest.mark.parametrize(("page", "least"), [("docs/paper.md", 30), ("CONTRIBUTING.md", 8)])
def test_every_place_in_the_code_that_a_page_names_exists(page: str, least: int) -> None:
    text = (README.parent / page).read_text(encoding="utf-8")
    rooms = "|".join(path.stem for path in Path(oe.__file__).parent.iterdir() if path.is_dir())
    named = re.findall(rf"`((?:{rooms})(?:\.\w+)+)`", text)
    assert len(named) > least
    for name in named:
        resolve_name(f"{oe.__name__}.{name}")
    for test in re.findall(r"`(?:tests/)?((?:\w+/)*test_\w+\.py)`", text):
        assert (Path(__file__).parent / test).exists(), test
