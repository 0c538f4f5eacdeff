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
from collections.abc import Iterator
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from optensemble.persistence.archive import EXPANDS, open_archive, part_info, read_part, require_size, zipped
from optensemble.persistence.estimator_nodes import SCHEMA, Files, Node, check_node
from optensemble.persistence.estimator_types import LOADERS_OF_CHECKED, is_reviewed, is_reviewed_class, require_name
from optensemble.persistence.parts import Wrong

_PART = re.compile(r"\d+\.(bin|npy|npz)", re.ASCII)
_LARGEST_HEADER = 1 << 14
"""Bytes in which the header of an array must end; numpy itself reads at most 10,000."""

_OLDEST_PROTOCOL = 2
"""Of skops: nodes of earlier ones name functions where this module does not look."""

_KINDS = "biufUSmM"
_LONGEST_ENTRY = 4096
"""Bytes of an entry: where categories are compared, every row takes as many as the longest text."""

_BYTES_MADE = {"BytearrayNode": 16}
"""By the way in which skops makes an object: bytes of memory for one in the file; a bytearray is a list first."""

FORGOTTEN = {"memory": "null", "n_jobs": "null", "pre_dispatch": '"2*n_jobs"'}
"""Attributes of reviewed classes that are not kept, and what is kept in their place, as JSON: a folder that would be
written to and unpickled from, and numbers of processes, of which the machine that saves knows nothing elsewhere."""


class Scan(NamedTuple):
    """A blob that was validated: the types in it that must be trusted by name, and those that need not be."""

    asked: set[str]
    reviewed: set[str]


def normal_form(blob: bytes) -> bytes:
    """Return what skops has written in our form: numbered files, no ids, no time stamps, compressed."""
    with zipfile.ZipFile(io.BytesIO(blob)) as archive:
        schema, names = json.loads(archive.read(SCHEMA)), dict[tuple[bytes, str], str]()
        for node in _nodes(schema):
            node.pop("__id__", None)
            _forget(node)
        for node in _nodes(schema):  # of which some were forgotten, with their files
            if isinstance(name := node.get("file"), str):  # equal arrays are one file, were they one object or not
                kind = name.rpartition(".")[2]
                node["file"] = names.setdefault((_clean(archive.read(name)), kind), f"{len(names)}.{kind}")
        parts = {SCHEMA: json.dumps(schema, separators=(",", ":")).encode()}
        return zipped(parts | {name: content for (content, _), name in names.items()}, zipfile.ZIP_DEFLATED)


def _forget(node: Node) -> None:
    """Leave out of an object what is not to be kept."""
    if node["__loader__"] != "ObjectNode" or not is_reviewed_class(f"{node['__module__']}.{node['__class__']}"):
        return
    kept = node["content"]["content"]
    for name in FORGOTTEN.keys() & (kept.keys() if isinstance(kept, dict) else set()):
        kept[name] = {"__class__": "str", "__module__": "builtins", "__loader__": "JsonNode"}
        kept[name] |= {"content": FORGOTTEN[name], "is_json": True}


def _clean(content: bytes) -> bytes:
    """Return an array without what was in memory between its fields: the nodes of a tree are padded."""
    if not content.startswith(np.lib.format.MAGIC_PREFIX):
        return content
    array = np.load(io.BytesIO(content), allow_pickle=False)
    if array.dtype.names is None:
        return content
    clean, written = np.zeros(array.shape, array.dtype), io.BytesIO()  # zeros_like would leave the padding
    for name in array.dtype.names:
        clean[name] = array[name]
    np.lib.format.write_array_header_1_0(written, np.lib.format.header_data_from_array_1_0(clean))
    return bytes(written.getvalue() + clean.tobytes())  # numpy's own writing goes through buffers that are not cleared


def scan(blob: bytes, limit: int) -> Scan:
    """Validate a blob of at most ``limit`` bytes, packed and unpacked, and return the types in it."""
    with open_archive(io.BytesIO(blob)) as archive:
        sizes, shapes = _check_parts(archive, limit)
        files = Files(shapes, lambda name: _read_array(archive, name))
        schema = json.loads(read_part(archive, SCHEMA, limit // EXPANDS))
        protocol = schema.get("protocol") if isinstance(schema, dict) else None
        if type(protocol) is not int or protocol < _OLDEST_PROTOCOL:
            raise Wrong(SCHEMA, f"be of protocol {_OLDEST_PROTOCOL} or later", protocol)
        found, used = Scan(set(), set()), 0
        for node in _nodes(schema):
            used += _check_node(node, sizes, found)
            require_size(used, limit, "has members that are")  # one array may be used any number of times
            check_node(node, files)
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
    """Note the type of a node, and return the bytes that its file takes up in memory."""
    loader, module, own = node["__loader__"], node.get("__module__"), node.get("__class__")
    if "__id__" in node or not isinstance(module, str) or not isinstance(own, str):
        raise Wrong(SCHEMA, "have nodes with a type and without an id", node.get("__id__"))
    require_name(name := f"{module}.{own}")
    if LOADERS_OF_CHECKED.get(name, loader) != loader:
        raise Wrong(SCHEMA, f"have {name} in a {LOADERS_OF_CHECKED[name]}", loader)
    (found.reviewed if is_reviewed(loader, name) else found.asked).add(name)
    file = node.get("file")
    if file is not None and (not isinstance(file, str) or file not in sizes):
        raise Wrong(SCHEMA, "name files that are there", file)
    return 0 if file is None else sizes[file] * _BYTES_MADE.get(loader, 1)


# Files


def _check_parts(archive: zipfile.ZipFile, limit: int) -> tuple[dict[str, int], dict[str, tuple[int, ...]]]:
    """Return the sizes of all files, whose names, kinds and headers are as ours, and the shapes of arrays."""
    sizes, shapes = dict[str, int](), dict[str, tuple[int, ...]]()
    for name in archive.namelist():
        if name != SCHEMA and not _PART.fullmatch(name):
            raise Wrong("a member", "have numbered parts", name)
        sizes[name] = part_info(archive, name, limit).file_size
    require_size(sum(sizes.values()), limit, "has members that are")
    for name in sizes:
        if name.endswith(".npy"):
            with archive.open(name) as part:
                shapes[name] = _check_array(part, sizes[name])
        elif name.endswith(".npz"):  # of sparse matrices: a zip again
            sizes[name] = _check_arrays(read_part(archive, name, limit), limit)
    return sizes, shapes


def _check_arrays(packed: bytes, limit: int) -> int:
    with open_archive(io.BytesIO(packed)) as archive:
        sizes = {name: part_info(archive, name, limit).file_size for name in archive.namelist()}
        require_size(sum(sizes.values()), limit, "has members that are")
        for name, size in sizes.items():
            with archive.open(name) as part:
                _check_array(part, size)
    return sum(sizes.values())


def _check_array(part: IO[bytes], size: int) -> tuple[int, ...]:
    """Check that a header describes the rest to the byte, so that numpy makes no more of it, and check its values.

    Returns its shape.
    """
    stream = io.BytesIO(part.read(_LARGEST_HEADER))
    header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    shape, _, dtype = header[np.lib.format.read_magic(stream)](stream)
    if not _is_allowed(dtype):
        raise Wrong("an array of a member", f"hold numbers or text of at most {_LONGEST_ENTRY:,} bytes", dtype)
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != size - stream.tell():
        raise Wrong("an array of a member", f"be of shape {shape}, as it says", size)
    if dtype.kind in "bU":
        rest = np.frombuffer(stream.read() + part.read(), np.uint8 if dtype.kind == "b" else dtype.str[0] + "u4")
        if rest.size and rest.max() > (1 if dtype.kind == "b" else 0x10FFFF):
            raise Wrong("an array of a member", "hold truth values and letters that are some", rest.max())
    return tuple(shape)


def _is_allowed(dtype: np.dtype[Any]) -> bool:
    """Return whether entries are numbers or text, or records of numbers, as the nodes of a tree are."""
    fields = [dtype] if dtype.fields is None else [dtype.fields[name][0] for name in dtype.names or ()]
    kinds = _KINDS if dtype.fields is None else "iuf"
    return 0 < dtype.itemsize <= _LONGEST_ENTRY and all(field.kind in kinds for field in fields)


def _read_array(archive: zipfile.ZipFile, name: str) -> npt.NDArray[Any]:
    return np.load(io.BytesIO(archive.read(name)), allow_pickle=False)  # type: ignore[no-any-return]
