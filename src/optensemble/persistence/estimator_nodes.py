"""Validation of nodes of which skops makes objects of compiled types, or far more than there is: before it does."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from optensemble.persistence.estimator_types import KEYS, TREE, is_reviewed_class
from optensemble.persistence.parts import Wrong

SCHEMA = "schema.json"

_LARGEST_POOL = 64
"""Words of a seed sequence, which makes room for as many as it says; numpy's own have four."""

_EXTENSIONS = {"NdArrayNode": "npy", "SparseMatrixNode": "npz", "BytesNode": "bin", "BytearrayNode": "bin"}
"""The files that skops reads for a node: each kind was checked as what it will be read as."""

Node = dict[str, Any]


class Files(NamedTuple):
    """The files of a blob: the shapes of the arrays in them, and how to read one."""

    shapes: dict[str, tuple[int, ...]]
    read: Callable[[str], npt.NDArray[Any]]


def _check_tree(node: Node, files: Files) -> None:
    """Check a tree: sizes agree, children come after their parent and exist, and so do features.

    scikit-learn checks the shapes of the two arrays, and takes fields by their place, whatever they are called.
    """
    from sklearn.tree._tree import NODE_DTYPE

    arguments, state = _content(node["__reduce__"]["args"], "TupleNode"), _content(node["content"], "DictNode")
    if len(arguments) != 3 or set(state) != {"max_depth", "node_count", "nodes", "values"}:
        raise Wrong(TREE, "have a size, nodes and values", sorted(state))
    features, n_classes, outputs = _whole(arguments[0]), _array(arguments[1], files), _whole(arguments[2])
    nodes, values, count = _array(state["nodes"], files), _array(state["values"], files), _whole(state["node_count"])
    _whole(state["max_depth"], 0, max(count, 1))
    if nodes.dtype != NODE_DTYPE:
        raise Wrong(TREE, "have the fields of scikit-learn's nodes, in their order", nodes.dtype)
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


def _check_loss(node: Node, _: Files) -> None:
    """Check a compiled loss: made of numbers alone, for it takes any state unchecked."""
    arguments, state = _content(node["__reduce__"]["args"], "TupleNode"), node["content"]
    plain = all(isinstance(_number(each), int | float) for each in arguments)
    if not plain or _content(state, "TupleNode" if state["__loader__"] == "TupleNode" else "DictNode"):
        raise Wrong(node["__class__"], "be made of numbers", state)


def _check_generator(node: Node, _: Files) -> None:
    """Check a random generator: another than PCG64 has a position, at which it would read."""
    name = _number(_content(node["content"]["bit_generator"], "DictNode")["bit_generator"])
    if name != "PCG64":
        raise Wrong("a random generator", "be of kind PCG64", name)
    if (pool := _content(node["content"]["seed_seq"], "DictNode").get("pool_size")) is not None:
        _whole(pool, high=_LARGEST_POOL)


def _check_array(node: Node, files: Files) -> None:
    """Check an array of objects, or a single number, which must be one: of more, numpy would make an array."""
    if node["type"] != "json":
        if node["__class__"] != "ndarray" and files.shapes[node["file"]] != ():
            raise Wrong(f"numpy.{node['__class__']}", "be a single value", files.shapes[node["file"]])
    elif node["__class__"] != "ndarray":
        raise Wrong("an array of objects", "be an array", node["__class__"])
    elif len(_content(node["shape"], "TupleNode")) != 1:
        left = list(node["content"])
        while left:
            left += _require_single(left.pop())


def _require_single(node: Node) -> list[Node]:
    """Refuse what numpy goes through as a sequence if it makes an array of several dimensions; return a list's entries.

    The trees of gradient boosting are in such an array.
    """
    loader, own = node["__loader__"], node["__class__"]
    if loader == "ListNode":
        return list(node["content"])
    number = loader == "JsonNode" and not isinstance(_number(node), list | dict)
    scalar = loader == "NdArrayNode" and own != "ndarray"
    tree = loader == "ObjectNode" and (node["__module__"], own) == ("sklearn.tree._classes", "DecisionTreeRegressor")
    if not (number or scalar or tree):
        raise Wrong("an array of objects", "hold single values", own)
    return []


def _check_masked(node: Node, _: Files) -> None:
    """Check that a masked array is made of arrays."""
    for part in ("data", "mask"):
        if node["content"][part]["__loader__"] != "NdArrayNode":
            raise Wrong("a masked array", "be made of arrays", node["content"][part]["__loader__"])


def _check_kind(node: Node, _: Files) -> None:
    """Check that the kind of an array's entries is that of an array: anything may have a dtype."""
    if (node["content"]["__loader__"], node["content"]["__class__"]) != ("NdArrayNode", "ndarray"):
        raise Wrong("a dtype", "be that of an array", node["content"]["__loader__"])


def _check_dict(node: Node, _: Files) -> None:
    """Check the keys of a dict, which may be the attributes of an object: Python and numpy honour names with ``__``."""
    for key in node["content"]:
        if key.startswith("__"):
            raise Wrong("a name in a member", "not begin with two underscores", key)
    for each in _content(node["key_types"], "ListNode"):
        if each["__loader__"] != "TypeNode" or f"{each['__module__']}.{each['__class__']}" not in KEYS:
            raise Wrong("a key in a member", "be text or a number", each["__class__"])


def _check_object(node: Node, _: Files) -> None:
    """Check that an object of a reviewed class has attributes that were checked as such, or none."""
    content = node.get("content")
    if content is None or not is_reviewed_class(f"{node['__module__']}.{node['__class__']}"):
        return
    if content["__loader__"] == "JsonNode":
        right = _number(content) is None
    else:
        right = (content["__loader__"], content["__class__"]) == ("DictNode", "dict")
    if not right:
        raise Wrong(node["__class__"], "have attributes by name", content["__class__"])


_CHECKS: dict[str, Callable[[Node, Files], None]] = {
    "TreeNode": _check_tree,
    "LossNode": _check_loss,
    "RandomGeneratorNode": _check_generator,
    "NdArrayNode": _check_array,
    "MaskedArrayNode": _check_masked,
    "DTypeNode": _check_kind,
    "DictNode": _check_dict,
    "ObjectNode": _check_object,
}


def check_node(node: Node, files: Files) -> None:
    """Raise :class:`Wrong` if what a node describes must not be made."""
    loader = node["__loader__"]
    if isinstance(node.get("file"), str) and not node["file"].endswith(f".{_EXTENSIONS.get(loader)}"):
        raise Wrong(SCHEMA, f"have a file of its kind for a {loader}", node["file"])
    if (check := _CHECKS.get(loader)) is not None:
        check(node, files)


def _content(node: Node, loader: str) -> Any:
    if node["__loader__"] != loader:
        raise Wrong(SCHEMA, f"have a {loader}", node["__loader__"])
    return node["content"]


def _array(node: Node, files: Files) -> npt.NDArray[Any]:
    right = (node["__loader__"], node["__class__"], node["type"]) == ("NdArrayNode", "ndarray", "numpy")
    if not right or node["file"] not in files.shapes:
        raise Wrong(SCHEMA, "have an array", node["__loader__"])
    return files.read(node["file"])


def _number(node: Node) -> Any:
    return json.loads(_content(node, "JsonNode"))


def _whole(node: Node, low: int = 1, high: int = 2**31) -> int:
    value = _number(node)
    if type(value) is not int or not low <= value < high:
        raise Wrong(SCHEMA, f"have a whole number from {low} to {high - 1}", value)
    return value
