"""Validation of nodes of which skops makes objects of compiled types, or far more than there is: before it does."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from optensemble.persistence.estimator_types import TREE
from optensemble.persistence.parts import Wrong

SCHEMA = "schema.json"

_LARGEST_POOL = 64
"""Words of a seed sequence, which makes room for as many as it says; numpy's own have four."""

Node = dict[str, Any]

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
    if (pool := _content(node["content"]["seed_seq"], "DictNode").get("pool_size")) is not None:
        _whole(pool, high=_LARGEST_POOL)


def _check_object_array(node: Node, _: Read) -> None:
    """Check an array of objects in several dimensions: numpy would make an object of every number of arrays in it."""
    if node["type"] != "json" or len(_content(node["shape"], "TupleNode")) == 1:
        return
    left = list(node["content"])
    while left:
        each = left.pop()
        if each["__loader__"] in ("ListNode", "TupleNode", "SetNode"):
            left += each["content"]
        elif each["__loader__"] in ("NdArrayNode", "MaskedArrayNode") and each["__class__"] in (
            "ndarray",
            "MaskedArray",
        ):
            raise Wrong("an array of objects", "hold single values", each["__class__"])


_CHECKS: dict[str, Callable[[Node, Read], None]] = {
    "TreeNode": _check_tree,
    "LossNode": _check_loss,
    "RandomGeneratorNode": _check_generator,
    "NdArrayNode": _check_object_array,
}


def check_node(node: Node, read: Read) -> None:
    """Raise :class:`Wrong` if what a node describes must not be made; ``read`` returns the array of a file."""
    if (check := _CHECKS.get(node["__loader__"])) is not None:
        check(node, read)


def _content(node: Node, loader: str) -> Any:
    if node["__loader__"] != loader:
        raise Wrong(SCHEMA, f"have a {loader}", node["__loader__"])
    return node["content"]


def _array(node: Node, read: Read) -> npt.NDArray[Any]:
    if (node["__loader__"], node["__class__"], node["type"]) != ("NdArrayNode", "ndarray", "numpy"):
        raise Wrong(SCHEMA, "have an array", node["__loader__"])
    return read(node["file"])


def _number(node: Node) -> Any:
    return json.loads(_content(node, "JsonNode"))


def _whole(node: Node, low: int = 1, high: int = 2**31) -> int:
    value = _number(node)
    if type(value) is not int or not low <= value < high:
        raise Wrong(SCHEMA, f"have a whole number from {low} to {high - 1}", value)
    return value
