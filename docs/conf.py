"""Settings of the site, which `make docs` builds. Neither building nor reading it loads anything from elsewhere."""

from __future__ import annotations

import re
from dataclasses import is_dataclass
from functools import cached_property
from html import escape
from importlib.metadata import version as version_of
from inspect import Parameter, getdoc
from inspect import signature as signature_of
from itertools import pairwise
from pathlib import Path
from typing import Any

from docutils import nodes
from pygments.lexer import RegexLexer
from pygments.token import Generic

project = "optensemble"
version = release = version_of(project)

extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["_build"]
nitpicky = True
nitpick_ignore_regex = [("py:.*", r"(abc|collections|matplotlib|numpy|np|npt|os|pandas|pathlib|pd|sklearn|typing)\..*")]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

add_module_names = False
autodoc_default_options = {"members": True}
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 88

html_theme = "furo"
html_title = f"optensemble {release}"
html_show_copyright = False
html_show_sourcelink = False
html_show_sphinx = False
html_show_search_summary = False  # would be fetched, which browsers forbid to files
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme_options = {"navigation_with_keys": True}

_UNDERLINE = re.compile(r"^-{3,}$")
_UNLINKED = (
    *(
        "Any",
        "ArrayLike",
        "Axes",
        "Callable",
        "Figure",
        "Floats",
        "Indices",
        "Iterable",
        "Iterator",
        "Path",
        "PathLike",
    ),
    *("Policy", "Rows", "Self"),
    *("Assessments", "Buckets", "Callback", "Cells", "Layout", "Progress", "Solver"),
)
_BETWEEN_ROOMS = (
    *("audit_with_answer", "has_record", "known_subgroups", "n_policies"),
    *("outcome", "policy_members", "promise_of"),
)
"""Members of the ensembles that other rooms use, and users need not know."""


def sections(lines: list[str]) -> list[list[str]]:
    """Cut a docstring before each of its headings."""
    starts = [number for number, line in enumerate(lines[1:]) if _UNDERLINE.match(line)]
    return [lines[first:last] for first, last in pairwise([0, *starts, len(lines)])]


def as_fields(app: Any, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Turn numpy's sections into Sphinx's fields, as this package writes them.

    Returns are sentences, and names with one description share an entry; napoleon and numpydoc take both for types.
    """
    found = []
    for section in sections(lines):
        heading, body = section[0] if section else "", section[2:]
        if heading == "Parameters":
            found += [":Parameters:", *(_parameter(line) for line in body)]
        elif heading == "Attributes":
            found += [entry for line in body for entry in _attribute(line)]
        elif heading == "Returns":
            found += [":returns:", *(f"    {line}" for line in body)]
        elif heading == "Examples":
            found += [".. rubric:: Example", "", *body]
        else:
            found += section
    lines[:] = found


def _parameter(line: str) -> str:
    if not line or line.startswith(" "):
        return f"  {line}"
    return f"    * {', '.join(f'**{name}**' for name in line.split(', '))} –"


def _attribute(line: str) -> list[str]:
    if not line or line.startswith(" "):
        return [line]
    first, *others = line.split(", ")
    return ["", f".. attribute:: {first}", *(f"               {other}" for other in others), ""]


def as_written(
    app: Any, what: str, name: str, thing: Any, options: object, signature: str | None, returns: str | None
) -> tuple[str, str] | None:
    """Show types by the names that the source gives them."""
    if signature is None or not callable(thing):
        return None
    if is_dataclass(thing) and vars(thing)["__dataclass_params__"].init:
        return "", ""  # the package makes it, users only read it
    written = signature_of(thing)
    named = [parameter for parameter in written.parameters.values() if parameter.name != "self"]
    given = [option for parameter in named for option in _spelled_out(parameter, thing)]
    hint = "" if what == "class" or written.return_annotation is written.empty else str(written.return_annotation)
    arguments = str(written.replace(parameters=given, return_annotation=written.empty))
    return _plain(arguments), _plain(hint)


def _spelled_out(parameter: Parameter, function: Any) -> list[Parameter]:
    """Return the options behind ``**options: Unpack[Options]``, or the parameter itself."""
    unpacked = re.fullmatch(r"Unpack\[(\w+)\]", str(parameter.annotation))
    if unpacked is None:
        return [parameter]
    options = function.__globals__[unpacked[1]].__annotations__
    hints = {name: getattr(hint, "__forward_arg__", hint) for name, hint in options.items()}
    return [Parameter(name, Parameter.KEYWORD_ONLY, annotation=hint, default=None) for name, hint in hints.items()]


def _plain(text: str) -> str:
    return re.sub(r"(: |-> )'([^']*)'", r"\1\2", text).replace("npt.ArrayLike", "ArrayLike")


def leave_out(app: Any, what: str, name: str, thing: Any, skip: bool, options: object) -> bool | None:
    """Leave out what scikit-learn adds to every estimator, which its own pages describe, and what only rooms use."""
    theirs = str(getattr(thing, "__module__", "")).startswith("sklearn") or re.fullmatch("set_.*_request", name)
    return True if theirs or name in _BETWEEN_ROOMS or _is_listed(thing, name) else None


def _is_listed(thing: Any, name: str) -> bool:
    """Whether a property is among the attributes of its class's docstring, which would describe it twice."""
    if not isinstance(thing, property | cached_property):
        return False
    function: Any = thing.fget if isinstance(thing, property) else thing.func
    owner = function.__globals__.get(function.__qualname__.partition(".")[0])
    listed = [part for part in sections((getdoc(owner) or "").splitlines()) if part[:1] == ["Attributes"]]
    return any(name in line.split(", ") for part in listed for line in part)


def find_public(app: Any, env: Any, node: Any, contnode: Any) -> Any:
    """Resolve a name by its last part: names from private modules are documented in public ones."""
    if node.get("refdomain") != "py":
        return None
    last = node["reftarget"].rpartition(".")[2]
    if last in _UNLINKED or last.startswith("_"):
        return contnode
    domain = env.get_domain("py")
    found = [name for name in domain.objects if name.rpartition(".")[2] == last]
    if len(found) != 1:
        return None
    return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", found[0], node, contnode)


class Console(RegexLexer):
    """Commands and their output, without highlighting of any language in it."""

    name = "console"
    tokens = {"root": [(r"^\$ .*\n?", Generic.Strong), (r".+\n?|\n", Generic.Output)]}  # noqa: RUF012


def trim(app: Any, doctree: nodes.document) -> None:
    """Remove the empty line that a doctest needs before the end of a block."""
    for block in doctree.findall(nodes.literal_block):
        block.rawsource = block.astext().rstrip()
        block[:] = [nodes.Text(block.rawsource)]


def draw_inside(app: Any, doctree: nodes.document, page: str) -> None:
    """Put drawings into the page itself, where they take its colours, light or dark."""
    for image in list(doctree.findall(nodes.image)):
        path = Path(app.srcdir) / image["uri"]
        if path.suffix == ".svg":
            label = f'aria-label="{escape(image["alt"])}"'
            drawing = path.read_text(encoding="utf-8").replace(f'aria-label="{path.stem}"', label)
            image.replace_self(nodes.raw("", f'<div class="drawing">{drawing}</div>', format="html"))


def setup(app: Any) -> None:
    """Connect the above."""
    app.connect("autodoc-process-docstring", as_fields)
    app.connect("autodoc-process-signature", as_written)
    app.connect("autodoc-skip-member", leave_out)
    app.connect("missing-reference", find_public)
    app.connect("doctree-read", trim)
    app.connect("doctree-resolved", draw_inside)
    app.add_lexer("console", Console)
