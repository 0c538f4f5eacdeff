"""Estimators as members: which are to be fitted here, copies of them, and what their ``fit`` is given."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from numbers import Integral
from typing import Any

import numpy as np

from optensemble._core.hashing import hash_labels
from optensemble.exceptions import InputError
from optensemble.members.per_label import PerLabel

PREFIT = "prefit"
"""The value of ``cv`` that takes all members as they are."""

_SEEDS = 1 << 31  # scikit-learn takes seeds below 2**32, some libraries only those of a signed number


def to_be_fitted(member: Any, name: str, cv: Any) -> bool:
    """Return whether a member is to be fitted here: an estimator that is not fitted yet.

    Estimators follow scikit-learn's convention (``get_params``; what is learned ends in an underscore). Of other
    objects with a ``fit`` nobody knows whether they are fitted: they are taken as they are unless ``cv`` is given, or
    their ``__sklearn_is_fitted__`` says that they are not.
    """
    if isinstance(cv, str) and cv == PREFIT:
        return False
    if isinstance(member, (list, PerLabel)):
        return _all_alike([to_be_fitted(each, name, cv) for each in parts_of(member)], name)
    if isinstance(member, type) or not callable(getattr(member, "fit", None)):
        return False
    if not any(callable(getattr(member, method, None)) for method in ("predict", "decide")):
        return False
    if not hasattr(member, "get_params") and not hasattr(member, "__sklearn_is_fitted__") and cv is None:
        return False
    return not _is_fitted(member)


def _is_fitted(member: Any) -> bool:
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    if not hasattr(member, "__sklearn_tags__"):  # scikit-learn's check is for estimators that have tags
        attributes = getattr(member, "__dict__", ())
        learned = getattr(member, "__sklearn_is_fitted__", lambda: any(map(_is_learned, attributes)))
        return bool(learned())
    try:
        check_is_fitted(member)
    except NotFittedError:
        return False
    return True


def _is_learned(attribute: str) -> bool:
    return attribute.endswith("_") and not attribute.startswith("__")


def _all_alike(found: list[bool], name: str) -> bool:
    if any(found) != all(found):
        raise InputError(f"some of the estimators of {name!r} are fitted and others are not. Fit all of them, or none.")
    return any(found)


def parts_of(member: Any) -> list[Any]:
    """Return the estimators that a member is made of: one for each label, or itself."""
    if isinstance(member, PerLabel):
        return member.models
    return list(member) if isinstance(member, list) else [member]


def wrapped(member: Any, name: str, d: int) -> Any:
    """Return a list of estimators as the model of ``d`` labels that it is; all else as it is."""
    if not isinstance(member, list):
        return member
    if len(member) != d:
        raise InputError(
            f"{name!r} is a list of {len(member)} estimators; there must be one for each of the {d} labels. Give "
            f"{d} of them, or one estimator for all labels."
        )
    return PerLabel(member)


def unfitted(member: Any) -> Any:
    """Return a copy of an estimator with the same parameters and nothing learned."""
    if isinstance(member, list):
        return [unfitted(each) for each in member]
    if isinstance(member, PerLabel):
        return PerLabel([unfitted(each) for each in member.models])
    if hasattr(member, "get_params"):
        from sklearn.base import clone

        return clone(member)
    fresh = copy.deepcopy(member)
    for attribute in [each for each in getattr(fresh, "__dict__", ()) if _is_learned(each)]:
        delattr(fresh, attribute)
    return fresh


def copy_unfitted(members: Any) -> Any:
    """Return members as they were given, pairs or a dict, with copies of those that are not fitted yet.

    Fitted ones are shared: a copy of them would have to be fitted again.
    """
    pairs = list(members.items()) if isinstance(members, Mapping) else members
    if not isinstance(pairs, (list, tuple)) or not all(map(is_pair, pairs)):
        return members
    new = [to_be_fitted(member, str(name), None) for name, member in pairs]
    if not any(new):
        return members
    copies = [(name, unfitted(member) if own else member) for (name, member), own in zip(pairs, new, strict=True)]
    return dict(copies) if isinstance(members, Mapping) else copies


def is_pair(given: Any) -> bool:
    """Return whether something is a list or tuple of two."""
    return isinstance(given, (list, tuple)) and len(given) == 2


def with_seeds(member: Any, name: str, seed: int) -> Any:
    """Give every random state that is None a seed of its own, so that the same rows and seed give the same bits."""
    for each in parts_of(member):
        given = each.get_params(deep=True) if hasattr(each, "get_params") else {}
        open_states = [key for key, value in given.items() if value is None and _is_random_state(key)]
        if open_states:
            each.set_params(**{key: _seed_of(seed, name, key) for key in sorted(open_states)})
    return member


def without_seeds(member: Any, name: str, seed: int) -> Any:
    """Take the seeds away that a member was given by :func:`with_seeds`, so that another seed can take effect."""
    for each in parts_of(member):
        given = each.get_params(deep=True) if hasattr(each, "get_params") else {}
        states = {key: value for key, value in given.items() if _is_random_state(key) and isinstance(value, Integral)}
        own = sorted(key for key, value in states.items() if value == _seed_of(seed, name, key))
        if own:
            each.set_params(**dict.fromkeys(own))
    return member


def _is_random_state(key: str) -> bool:
    return key == "random_state" or key.endswith("__random_state")


def _seed_of(seed: int, name: str, key: str) -> int:
    return int(hash_labels([f"{seed} {name} {key}"])[0] % np.uint64(_SEEDS))


def takes_all_labels(estimator: Any) -> bool:
    """Return whether one estimator can be fitted to several labels at once.

    Regressors of scikit-learn's kind say so by their tags; whatever else has a ``fit`` is given all labels.
    """
    from sklearn.base import is_regressor
    from sklearn.utils import get_tags

    if not hasattr(estimator, "__sklearn_tags__") or not is_regressor(estimator):
        return True
    if get_tags(estimator).target_tags.multi_output:
        return True
    inner = getattr(estimator, "estimator", None)  # a search takes what it searches for
    return inner is not None and hasattr(inner, "__sklearn_tags__") and takes_all_labels(inner)


Arguments = dict[str, Any]
"""Keyword arguments of ``fit`` with a value for every row."""


def fit_arguments(estimator: Any, given: Mapping[str, Any]) -> Arguments:
    """Return the values of rows that an estimator's ``fit`` is given, of ``sample_weight`` and ``groups``.

    They are those it asks for by metadata routing; where that is not enabled, weights if it takes them.
    """
    known = {key: value for key, value in given.items() if value is not None}
    if not known or not hasattr(estimator, "get_params"):
        return {}
    from sklearn import get_config

    if get_config()["enable_metadata_routing"]:
        return _routed(estimator, known)
    weights = known.get("sample_weight")
    key = None if weights is None else _weight_key(estimator)
    return {} if key is None else {key: weights}


def _routed(estimator: Any, given: Mapping[str, Any]) -> Arguments:
    from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping

    mapping = MethodMapping().add(caller="fit", callee="fit")
    router = MetadataRouter(owner=type(estimator).__name__).add(member=estimator, method_mapping=mapping)
    return dict(router.route_params(caller="fit", params=dict(given)).member.fit)


def _weight_key(estimator: Any) -> str | None:
    """Return the argument of ``fit`` for weights; that of a pipeline is its last step's. None if there is none."""
    from sklearn.utils.validation import has_fit_parameter

    if has_fit_parameter(estimator, "sample_weight"):
        return "sample_weight"
    steps = getattr(estimator, "steps", None)
    if steps and hasattr(steps[-1][1], "fit") and has_fit_parameter(steps[-1][1], "sample_weight"):
        return f"{steps[-1][0]}__sample_weight"
    return None


def nested(members: Any, what: str) -> Iterator[tuple[str, Any]]:
    """Go through members that are estimators, and their parameters, under the names that ``set_params`` knows."""
    pairs = members.items() if isinstance(members, Mapping) else members
    if not isinstance(pairs, (list, tuple)) and not isinstance(members, Mapping):
        return
    for name, member in (pair for pair in pairs if is_pair(pair)):
        yield from _with_parameters(f"{what}__{name}", member)


def _with_parameters(key: str, member: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(member, (list, PerLabel)):
        yield key, member
        for number, each in enumerate(parts_of(member)):
            yield from _with_parameters(f"{key}__{number}", each)
    elif not isinstance(member, type) and hasattr(member, "get_params"):
        yield key, member
        yield from ((f"{key}__{name}", value) for name, value in member.get_params(deep=True).items())


def set_nested(members: Any, key: str, value: Any, what: str, cv: Any) -> Any:
    """Return members with one of them replaced, or with a parameter of one set; ``key`` is ``name`` or ``name__…``."""
    pairs = list(members.items() if isinstance(members, Mapping) else members or ())
    names = [name for name, _ in pairs]
    name = max((each for each in names if key == each or key.startswith(f"{each}__")), key=len, default=None)
    if name is None:
        from optensemble._core.suggestions import did_you_mean

        first = key.partition("__")[0]
        raise InputError(f"{what} has no member {first!r}.{did_you_mean(first, names)}")
    rest = key[len(name) + 2 :]
    at = names.index(name)
    changed = value if not rest else _with_parameter(pairs[at][1], rest, value, name, cv)
    pairs[at] = (name, changed)
    return dict(pairs) if isinstance(members, Mapping) else pairs


def _with_parameter(member: Any, key: str, value: Any, name: str, cv: Any) -> Any:
    if not to_be_fitted(member, name, cv):
        raise InputError(
            f"{key} of {name!r} would change nothing: it is taken as it is, and not fitted here. Give an estimator "
            "that is not fitted yet."
        )
    if not isinstance(member, list):
        member.set_params(**{key: value})
        return member
    number, _, rest = key.partition("__")
    if not number.isdigit() or int(number) >= len(member):
        raise InputError(f"{name!r} is a list of {len(member)} estimators, numbered from 0; got {number!r}.")
    parts = list(member)
    parts[int(number)] = _with_parameter(parts[int(number)], rest, value, name, cv) if rest else value
    return parts
