"""Validation of an estimator as skops has written it, before skops reads it: sizes, names, types, trees.

Such a blob is a zip of ``schema.json``, which describes objects as a tree of nodes, and of the arrays they have. Ours
are in a normal form: files are numbered, and no node refers to another by its id, so that what is checked here is what
skops will make.
"""

from __future__ import annotations

import io
import json
import math
import re
import zipfile
from collections.abc import Callable, Iterator
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from optensemble.persistence.archive import EXPANDS, open_archive, part_info, read_part, require_size, zipped
from optensemble.persistence.estimator_types import LOADERS_OF_CHECKED, TREE, is_reviewed
from optensemble.persistence.parts import Wrong

_SCHEMA = "schema.json"
_PART = re.compile(r"\d+\.(bin|npy|npz)", re.ASCII)
_LARGEST_HEADER = 1 << 14
"""Bytes in which the header of an array must end; numpy itself reads at most 10,000."""

_OLDEST_PROTOCOL = 2
"""Of skops: nodes of earlier ones name functions where this module does not look."""

_KINDS = "biufUSmM"

Node = dict[str, Any]


class Scan(NamedTuple):
    """A blob that was validated: the types in it that must be trusted by name, and those that need not be."""

    asked: set[str]
    reviewed: set[str]


def normal_form(blob: bytes) -> bytes:
    """Return what skops has written in our form: numbered files, no ids, no time stamps, compressed."""
    with zipfile.ZipFile(io.BytesIO(blob)) as archive:
        schema, names = json.loads(archive.read(_SCHEMA)), dict[bytes, str]()
        for node in _nodes(schema):
            node.pop("__id__", None)
            if isinstance(name := node.get("file"), str):  # equal arrays are one file, were they one object or not
                node["file"] = names.setdefault(_clean(archive.read(name)), f"{len(names)}.{name.rpartition('.')[2]}")
        parts = {_SCHEMA: json.dumps(schema, separators=(",", ":")).encode()}
        return zipped(parts | {name: content for content, name in names.items()}, zipfile.ZIP_DEFLATED)


def _clean(content: bytes) -> bytes:
    """Return an array without what was in memory between its fields: the nodes of a tree are padded."""
    if not content.startswith(np.lib.format.MAGIC_PREFIX):
        return content
    array = np.load(io.BytesIO(content), allow_pickle=False)
    if array.dtype.names is None:
        return content
    clean, written = np.zeros_like(array), io.BytesIO()
    for name in array.dtype.names:
        clean[name] = array[name]
    np.save(written, clean, allow_pickle=False)
    return written.getvalue()


def scan(blob: bytes, limit: int) -> Scan:
    """Validate a blob of at most ``limit`` bytes, packed and unpacked, and return the types in it."""
    with open_archive(io.BytesIO(blob)) as archive:
        sizes = _check_parts(archive, limit)
        schema = json.loads(read_part(archive, _SCHEMA, limit // EXPANDS))
        protocol = schema.get("protocol") if isinstance(schema, dict) else None
        if type(protocol) is not int or protocol < _OLDEST_PROTOCOL:
            raise Wrong(_SCHEMA, f"be of protocol {_OLDEST_PROTOCOL} or later", protocol)
        found, used = Scan(set(), set()), 0
        for node in _nodes(schema):
            used += _check_node(node, sizes, found)
            require_size(used, limit, "has members that are")  # one array may be used any number of times
            if node["__loader__"] in _CHECKS:
                _CHECKS[node["__loader__"]](node, lambda name: _read_array(archive, name))
    return found


def _nodes(schema: Any) -> Iterator[Node]:
    """Go through all nodes; without recursion, because a stranger's may be nested deeply."""
    left = [schema]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            if isinstance(value.get("__loader__"), str):
                yield value
            left += value.values()
        elif isinstance(value, list):
            left += value


def _check_node(node: Node, sizes: dict[str, int], found: Scan) -> int:
    """Note the type of a node, and return the size of its file."""
    loader, module, own = node["__loader__"], node.get("__module__"), node.get("__class__")
    if "__id__" in node or not isinstance(module, str) or not isinstance(own, str):
        raise Wrong(_SCHEMA, "have nodes with a type and without an id", node.get("__id__"))
    name = f"{module}.{own}"
    if LOADERS_OF_CHECKED.get(name, loader) != loader:
        raise Wrong(_SCHEMA, f"have {name} in a {LOADERS_OF_CHECKED[name]}", loader)
    (found.reviewed if is_reviewed(loader, name) else found.asked).add(name)
    file = node.get("file")
    if file is not None and (not isinstance(file, str) or file not in sizes):
        raise Wrong(_SCHEMA, "name files that are there", file)
    return 0 if file is None else sizes[file]


# Files


def _check_parts(archive: zipfile.ZipFile, limit: int) -> dict[str, int]:
    """Return the sizes of all files, whose names, kinds and headers are as ours."""
    sizes = {}
    for name in archive.namelist():
        if name != _SCHEMA and not _PART.fullmatch(name):
            raise Wrong("a member", "have numbered parts", name)
        sizes[name] = part_info(archive, name, limit).file_size
    require_size(sum(sizes.values()), limit, "has members that are")
    for name in sizes:
        if name.endswith(".npy"):
            with archive.open(name) as part:
                _check_array(part, sizes[name])
        elif name.endswith(".npz"):  # of sparse matrices: a zip again
            sizes[name] = _check_arrays(read_part(archive, name, limit), limit)
    return sizes


def _check_arrays(packed: bytes, limit: int) -> int:
    with open_archive(io.BytesIO(packed)) as archive:
        sizes = {name: part_info(archive, name, limit).file_size for name in archive.namelist()}
        require_size(sum(sizes.values()), limit, "has members that are")
        for name, size in sizes.items():
            with archive.open(name) as part:
                _check_array(part, size)
    return sum(sizes.values())


def _check_array(part: IO[bytes], size: int) -> None:
    """Check that a header describes the rest to the byte, so that numpy makes no more of it, and check its values."""
    stream = io.BytesIO(part.read(_LARGEST_HEADER))
    header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    shape, _, dtype = header[np.lib.format.read_magic(stream)](stream)
    fields = [dtype] if dtype.fields is None else [dtype.fields[name][0] for name in dtype.names or ()]
    if not dtype.itemsize or any(field.kind not in (_KINDS if dtype.fields is None else "iuf") for field in fields):
        raise Wrong("an array of a member", "hold numbers or text", dtype)
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != size - stream.tell():
        raise Wrong("an array of a member", f"be of shape {shape}, as it says", size)
    if dtype.kind in "bU":
        rest = np.frombuffer(stream.read() + part.read(), np.uint8 if dtype.kind == "b" else dtype.str[0] + "u4")
        if rest.size and rest.max() > (1 if dtype.kind == "b" else 0x10FFFF):
            raise Wrong("an array of a member", "hold truth values and letters that are some", rest.max())


def _read_array(archive: zipfile.ZipFile, name: str) -> npt.NDArray[Any]:
    return np.load(io.BytesIO(archive.read(name)), allow_pickle=False)  # type: ignore[no-any-return]


# Objects of compiled types, which are checked before they are made

Read = Callable[[str], npt.NDArray[Any]]


def _check_tree(node: Node, read: Read) -> None:
    """Check a tree: sizes agree, children come after their parent and exist, and so do features.

    scikit-learn checks the shapes of the two arrays, and nothing else.
    """
    arguments, state = _content(node["__reduce__"]["args"], "TupleNode"), _content(node["content"], "DictNode")
    if len(arguments) != 3 or set(state) != {"max_depth", "node_count", "nodes", "values"}:
        raise Wrong(TREE, "have a size, nodes and values", sorted(state))
    features, n_classes, outputs = _whole(arguments[0]), _array(arguments[1], read), _whole(arguments[2])
    nodes, values, count = _array(state["nodes"], read), _array(state["values"], read), _whole(state["node_count"])
    _whole(state["max_depth"], 0)
    right = n_classes.dtype.kind in "iu" and n_classes.shape == (outputs,) and n_classes.min() >= 1
    if not right or nodes.shape != (count,) or values.shape != (count, outputs, n_classes.max()):
        raise Wrong(TREE, "have as many nodes, outputs and classes as it says", (nodes.shape, values.shape))
    check_walk(TREE, nodes["left_child"], nodes["right_child"], nodes["left_child"] == -1)
    inner = nodes["left_child"] != -1
    if (nodes["right_child"][~inner] != -1).any():
        raise Wrong(TREE, "have leaves without children", "others")
    split = nodes["feature"][inner]
    if split.size and not 0 <= split.min() <= split.max() < features:
        raise Wrong(TREE, f"split by features from 0 to {features - 1}", (split.min(), split.max()))


def check_walk(name: str, left: npt.NDArray[Any], right: npt.NDArray[Any], leaf: npt.NDArray[Any]) -> None:
    """Check that a walk from the first node on stays among the nodes, and ends."""
    number = np.arange(len(leaf))
    for child in (left, right):
        if child.dtype.kind not in "iu" or not (leaf | ((child > number) & (child < len(leaf)))).all():
            raise Wrong(name, "have children that exist, and come after their parent", child)


def _check_loss(node: Node, _: Read) -> None:
    """Check a compiled loss: made of numbers alone, for it takes any state unchecked."""
    arguments, state = _content(node["__reduce__"]["args"], "TupleNode"), node["content"]
    plain = all(isinstance(_number(each), int | float) for each in arguments)
    if not plain or _content(state, "TupleNode" if state["__loader__"] == "TupleNode" else "DictNode"):
        raise Wrong(node["__class__"], "be made of numbers", state)


def _check_generator(node: Node, _: Read) -> None:
    """Check a random generator: another than PCG64 has a position, at which it would read."""
    name = _number(_content(node["content"]["bit_generator"], "DictNode")["bit_generator"])
    if name != "PCG64":
        raise Wrong("a random generator", "be of kind PCG64", name)


_CHECKS: dict[str, Callable[[Node, Read], None]] = {
    "TreeNode": _check_tree,
    "LossNode": _check_loss,
    "RandomGeneratorNode": _check_generator,
}


def _content(node: Node, loader: str) -> Any:
    if node["__loader__"] != loader:
        raise Wrong(_SCHEMA, f"have a {loader}", node["__loader__"])
    return node["content"]


def _array(node: Node, read: Read) -> npt.NDArray[Any]:
    if (node["__loader__"], node["__class__"], node["type"]) != ("NdArrayNode", "ndarray", "numpy"):
        raise Wrong(_SCHEMA, "have an array", node["__loader__"])
    return read(node["file"])


def _number(node: Node) -> Any:
    return json.loads(_content(node, "JsonNode"))


def _whole(node: Node, low: int = 1) -> int:
    value = _number(node)
    if type(value) is not int or not low <= value < 2**31:
        raise Wrong(_SCHEMA, f"have a whole number, at least {low}", value)
    return value
