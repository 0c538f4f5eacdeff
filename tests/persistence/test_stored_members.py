"""Members that are estimators are kept in the file: loaded with equal decisions, given again, trusted, or refused."""

from __future__ import annotations

import builtins
import hashlib
import io
import json
import os
import threading
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor

import optensemble as oe
from optensemble import feasible
from optensemble.exceptions import FileError, InputError
from optensemble.members.per_label import PerLabel
from optensemble.persistence.stored_members import PER_LABEL, UntrustedTypesError, load_stored, pack_stored
from tests.persistence.archives import parts
from tests.persistence.estimators import NEIGHBOURS, packed, unpacked

pytest.importorskip("skops")
pytestmark = pytest.mark.filterwarnings(
    "ignore::optensemble.exceptions.NotConvergedWarning", "ignore::optensemble.exceptions.DataWarning"
)

QUICK: dict[str, Any] = {"alpha": 0.05, "bucket_width": 0.5, "max_rounds": 20, "validation": None}
OMEGA = feasible.Simplex(3)
RNG = np.random.default_rng(1)
X = RNG.normal(size=(150, 4))
Y = 2.0 * X[:, :3] + RNG.normal(size=(150, 3))
FIT, NEW = slice(0, 40), slice(40, 150)


class BestOf(BaseEstimator):  # type: ignore[misc]
    """A policy that is an estimator: all on the largest prediction."""

    def __init__(self, model: Any = None) -> None:
        self.model = model

    def decide(self, X: Any) -> Any:
        return np.eye(3)[self.model.predict(X).argmax(axis=1)]


NAME = f"{BestOf.__module__}.BestOf"


def forest() -> Any:
    return RandomForestRegressor(5, random_state=0).fit(X[FIT], Y[FIT])


def white(**models: Any) -> oe.WhiteBoxEnsemble:
    members = models or {"forest": forest(), "ridge": Ridge().fit(X[FIT], Y[FIT])}
    return oe.WhiteBoxEnsemble(list(members.items()), OMEGA, **QUICK).fit(X[NEW], Y[NEW])


@pytest.fixture
def saved(tmp_path: Path) -> tuple[oe.WhiteBoxEnsemble, Path]:
    ensemble, path = white(), tmp_path / "white.oe"
    ensemble.save(path)
    return ensemble, path


def make_decision() -> Any:
    policies = [("best", BestOf(Ridge().fit(X[FIT], Y[FIT]))), ("even", lambda X: np.full((len(X), 3), 1 / 3))]
    models = [("forest", forest()), ("columns", oe.Columns([0, 1, 2]))]
    return oe.DecisionEnsemble(models, policies, OMEGA).fit(X[NEW], Y[NEW])


def make_black() -> Any:
    policies = [("best", BestOf(Ridge().fit(X[FIT], Y[FIT])))]
    return oe.BlackBoxEnsemble(policies, OMEGA, init=forest(), **QUICK).fit(X[NEW], Y[NEW])


@pytest.mark.parametrize(
    ("make", "given"),
    [(white, {}), (make_black, {}), (make_decision, {"policies": {"even": lambda X: np.full((len(X), 3), 1 / 3)}})],
)
def test_an_ensemble_comes_back_with_its_members(make: Callable[[], Any], given: Any, tmp_path: Path) -> None:
    ensemble = make()
    ensemble.save(tmp_path / "first.oe")
    loaded = oe.load(tmp_path / "first.oe", trusted=[NAME], **given)
    for method in ("decide", "predict"):
        ours, theirs = (np.asarray(getattr(each, method)(X)) for each in (loaded, ensemble))
        np.testing.assert_array_equal(ours, theirs)
    loaded.save(tmp_path / "second.oe")
    assert parts(tmp_path / "first.oe")["members.zip"] == parts(tmp_path / "second.oe")["members.zip"]


def test_files_without_stored_members_are_as_they_were(saved: tuple[Any, Path]) -> None:
    ensemble, path = saved
    ensemble.save(path, keep_members=False)
    assert list(parts(path)) == ["manifest.json", "ensemble.json", "arrays.npz"]
    document = json.loads(parts(path)["ensemble.json"])
    assert not {"stored", "init_stored", "libraries"} & set(document)
    with pytest.raises(InputError, match=r"must be given again: load\(path, models=\{'forest': …, 'ridge': …\}\)\.$"):
        oe.load(path)
    with pytest.raises(InputError, match="keep_members must be one of"):
        ensemble.save(path, keep_members="no")


def test_a_member_that_is_given_again_takes_the_place_of_the_stored_one(tmp_path: Path) -> None:
    far = KNeighborsRegressor().fit(X[FIT], Y[FIT])
    ensemble = white(ridge=Ridge().fit(X[FIT], Y[FIT]), near=far)
    ensemble.save(tmp_path / "e.oe")
    again = LinearRegression().fit(X[FIT], Y[FIT])
    loaded = oe.load(tmp_path / "e.oe", models={"near": again})  # which then needs no trust
    assert dict(loaded.members_)["near"] is again
    with pytest.raises(InputError, match="models has 'nera', but those saved are 'ridge', 'near'"):
        oe.load(tmp_path / "e.oe", models={"nera": again}, trusted=NEIGHBOURS)


def test_types_that_are_not_trusted_are_listed(tmp_path: Path) -> None:
    ensemble = white(ridge=Ridge().fit(X[FIT], Y[FIT]), near=KNeighborsRegressor().fit(X[FIT], Y[FIT]))
    ensemble.save(tmp_path / "e.oe")
    with pytest.raises(UntrustedTypesError, match=r"e.oe holds types that are not trusted, in 'near': ") as caught:
        oe.load(tmp_path / "e.oe", trusted=NEIGHBOURS[:1])
    assert caught.value.types == NEIGHBOURS[1:]
    listed = ", ".join(f'"{name}"' for name in NEIGHBOURS[1:])
    assert f"load(path, trusted=[{listed}])" in str(caught.value)
    assert '{"near": …}' in str(caught.value)
    loaded = oe.load(tmp_path / "e.oe", trusted=[*NEIGHBOURS[:2], KNeighborsRegressor])
    np.testing.assert_array_equal(loaded.decide(X), ensemble.decide(X))


@pytest.mark.parametrize("trusted", [True, 3, [3], ["Booster"]])
def test_trusted_types_have_full_names(trusted: Any, saved: tuple[Any, Path]) -> None:
    with pytest.raises(InputError, match="trusted must list types by their full names, such as"):
        oe.load(saved[1], trusted=trusted)


# Without skops


@pytest.fixture
def without_skops(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    real = builtins.__import__

    def fail(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.split(".")[0] == "skops":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    return lambda: monkeypatch.setattr(builtins, "__import__", fail)


def test_without_skops_estimators_are_given_again(tmp_path: Path, without_skops: Callable[[], None]) -> None:
    ensemble = white()
    without_skops()
    ensemble.save(tmp_path / "e.oe")
    why = r" 'forest': skops was not installed when the file was saved\. 'ridge': skops was not"
    with pytest.raises(InputError, match=r"must be given again: load\(path, models=.*\)\." + why):
        oe.load(tmp_path / "e.oe")
    loaded = oe.load(tmp_path / "e.oe", models=dict(ensemble.members_))
    np.testing.assert_array_equal(loaded.decide(X), ensemble.decide(X))


def test_where_skops_is_missing_now_the_error_says_so(
    saved: tuple[Any, Path], without_skops: Callable[[], None]
) -> None:
    without_skops()
    with pytest.raises(InputError, match=r"'forest': skops is not installed here: pip install 'optensemble\[skops\]'"):
        oe.load(saved[1])


def test_what_skops_cannot_store_is_given_again(tmp_path: Path) -> None:
    strange = Ridge().fit(X[FIT], Y[FIT])
    strange.note = lambda: 3
    ensemble = white(ridge=strange, code=lambda X: X[:, :3])
    ensemble.save(tmp_path / "e.oe")
    with pytest.raises(InputError, match=r"models=\{'ridge': …, 'code': …\}\)\. 'ridge': skops cannot store it \("):
        oe.load(tmp_path / "e.oe")


# Lists of estimators


def test_a_list_of_estimators_is_stored_one_by_one(tmp_path: Path) -> None:
    members = [("each", PerLabel([Ridge(alpha).fit(X, Y[:, 0]) for alpha in (0.1, 1.0, 10.0)])), ("code", len)]
    blobs: list[bytes] = []
    stored = pack_stored(members, blobs)
    assert stored == {"each": {"kind": PER_LABEL, "blobs": [0, 1, 2], "trust": []}}
    empty: dict[str, dict[str, Any]] = {"models": {}, "policies": {}}
    document = {"stored": stored, "libraries": {"scikit-learn": __import__("sklearn").__version__}}
    found = load_stored(document, blobs, empty, frozenset(), 1 << 30, "e.oe").members["each"]
    assert [model.alpha for model in found.models] == [0.1, 1.0, 10.0]


# Other versions, and files of strangers


def rewrite(path: Path, change: Callable[[Any, dict[str, bytes]], None]) -> None:
    """Change the document and other parts, with checksums made right."""
    content = parts(path)
    document = json.loads(content["ensemble.json"])
    change(document, content)
    content["ensemble.json"] = json.dumps(document).encode()
    manifest = json.loads(content["manifest.json"])
    manifest["sha256"] = {
        name: hashlib.sha256(content[name]).hexdigest() for name in content if name != "manifest.json"
    }
    content["manifest.json"] = json.dumps(manifest).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, part in content.items():
            archive.writestr(name, part)


def test_another_version_of_scikit_learn_is_told(saved: tuple[Any, Path]) -> None:
    rewrite(saved[1], lambda document, _: document["libraries"].update({"scikit-learn": "1.2.3"}))
    with pytest.warns(UserWarning, match=r"its members are of scikit-learn 1\.2\.3, and this is .*: predictions may"):
        oe.load(saved[1])


def test_earlier_releases_ask_for_the_members(saved: tuple[Any, Path]) -> None:
    """They read the three parts that they know, and look at no other entries of the document."""

    def forget(document: Any, content: dict[str, bytes]) -> None:
        del content["members.zip"]
        for name in ("stored", "libraries"):
            del document[name]

    rewrite(saved[1], forget)
    with pytest.raises(InputError, match="must be given again"):
        oe.load(saved[1])


def blob(number: int, value: bytes) -> Callable[[Any, dict[str, bytes]], None]:
    def change(_: Any, content: dict[str, bytes]) -> None:
        whole = io.BytesIO(content["members.zip"])
        with zipfile.ZipFile(whole) as archive:
            files = {name: archive.read(name) for name in archive.namelist()}
        whole = io.BytesIO()
        with zipfile.ZipFile(whole, "w") as archive:
            for name, part in (files | {f"{number}.skops": value}).items():
                archive.writestr(name, part)
        content["members.zip"] = whole.getvalue()

    return change


def missing(why: str) -> Callable[[Any, dict[str, bytes]], None]:
    """Say that both members are missing."""

    def change(document: Any, content: dict[str, bytes]) -> None:
        del content["members.zip"]
        document["stored"] = {name: {"kind": "missing", "why": why} for name in document["stored"]}

    return change


WRONG: list[tuple[Callable[[Any, dict[str, bytes]], Any], str]] = [
    (blob(0, b"not a zip"), "does not end as an archive"),
    (blob(7, b"one more"), "no item named '2.skops'"),
    (blob(2, b"one more"), "have a member for each of 3 parts"),
    (lambda document, content: content.pop("members.zip"), "have a member for each of 0 parts"),
    (lambda document, content: content.update({"members.zip": b"no"}), "does not end as an archive"),
    (lambda document, _: document["stored"]["forest"].update(blobs=[1]), "have a member for each of 2 parts"),
    (lambda document, _: document["stored"]["forest"].update(blobs=[0, 1]), "have a part for each estimator"),
    (lambda document, _: document["stored"]["forest"].update(kind="pickle"), "stored.forest.kind must be one of"),
    (lambda document, _: document["stored"]["forest"].update(trust=3), "stored.forest.trust"),
    (lambda document, _: document["stored"].update(other={}), "stored must belong to members"),
    (lambda document, _: document["libraries"].update(skops=3), "libraries.skops must be text"),
    (lambda document, _: document["libraries"].update(skops="1\x1b[2K"), "libraries.skops must be a version"),
    (lambda document, _: document["stored"]["forest"].update(trust=["a.B;rm"]), "have words with dots between"),
    (missing("all is well\x1b[2K"), "why must be a line of at most 200 letters"),
    (missing("w" * 201), "why must be a line of at most 200 letters"),
]


@pytest.mark.parametrize(("change", "match"), WRONG)
def test_files_that_were_altered_are_refused(change: Any, match: str, saved: tuple[Any, Path]) -> None:
    rewrite(saved[1], change)
    with pytest.raises(FileError, match=match):
        oe.load(saved[1])


def test_members_are_under_the_checksum_and_the_limit(saved: tuple[Any, Path]) -> None:
    path = saved[1]
    with pytest.raises(FileError, match=r"are allowed. If you trust it, give load a larger limit="):
        oe.load(path, limit=20_000)
    content = parts(path)
    content["members.zip"] = content["members.zip"][:-30] + b"0" * 30
    with zipfile.ZipFile(path, "w") as archive:
        for name, part in content.items():
            archive.writestr(name, part)
    with pytest.raises(FileError, match=r"members.zip does not match its checksum"):
        oe.load(path)


def change_member(path: Path, change: Callable[[Any, dict[str, bytes]], None], number: int = 1) -> None:
    """Change what skops has written of a member."""

    def replace(document: Any, content: dict[str, bytes]) -> None:
        with zipfile.ZipFile(io.BytesIO(content["members.zip"])) as archive:
            schema, files = unpacked(archive.read(f"{number}.skops"))
        change(schema, files)
        blob(number, packed(schema, files))(document, content)

    rewrite(path, replace)


def test_what_is_wrong_with_a_member_is_told_at_load_with_its_name(saved: tuple[Any, Path]) -> None:
    change_member(saved[1], lambda schema, _: schema.update(protocol=0))
    with pytest.raises(FileError, match=r"white\.oe is not .*: the member 'ridge' cannot be loaded: "):
        oe.load(saved[1])


def test_errors_of_a_member_from_a_file_are_of_the_package(saved: tuple[Any, Path]) -> None:
    """A file can have a model that fits no rows, and its errors may quote the file."""

    def forget(schema: Any, _: dict[str, bytes]) -> None:
        del schema["content"]["content"]["coef_"]

    change_member(saved[1], forget)
    loaded = oe.load(saved[1])
    with pytest.raises(InputError, match=r"the member 'ridge', which came out of a file, cannot answer") as caught:
        loaded.decide(X)
    assert isinstance(caught.value.__cause__, AttributeError)
    assert str(caught.value).isprintable()
    with pytest.raises(InputError, match=r"the member 'forest', which came out of .*X has 3 features"):
        loaded.decide(X[:, :3])


def test_threads_leave_the_filters_of_warnings_as_they_were(saved: tuple[Any, Path]) -> None:
    before = list(warnings.filters)

    def work() -> None:
        for _ in range(4):
            oe.load(saved[1]).save(saved[1].with_name(f"{threading.get_ident()}.oe"))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(warnings.filters) == before


# Paths that are no files


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes in the file system")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.oe")
    with pytest.raises(FileError, match=r"pipe\.oe is not a regular file"):
        oe.load(tmp_path / "pipe.oe")


@pytest.mark.skipif(os.name == "nt", reason="links need a permission there")
def test_links_in_a_circle_are_told(saved: tuple[Any, Path]) -> None:
    circle = saved[1].with_name("circle.oe")
    circle.symlink_to(circle)
    with pytest.raises(FileError, match="cannot read"):
        oe.load(circle)
    with pytest.raises(FileError, match="cannot write"):
        saved[0].save(circle)
