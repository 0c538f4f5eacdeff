"""Subgroups of a DecisionEnsemble: found in X, corrected where that pays, audited by name, kept in the file."""

from __future__ import annotations

import json
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import numpy.typing as npt
import pandas as pd
import polars as pl
import pytest
from hypothesis import strategies as st
from scipy import stats
from threadpoolctl import threadpool_limits

import optensemble as oe
from optensemble import feasible
from optensemble._core.buckets import Buckets
from optensemble.exceptions import InputError
from optensemble.members.outputs import MemberOutputs
from optensemble.members.subgroups import Grouping, Subgroups, part_titles
from optensemble.persistence import archive as _archive
from optensemble.stacking import patch as _patching
from optensemble.stats.folds import folds
from tests.problems import Floats, level_set_masks, violation
from tests.stacking.passes import FitRows, Learned

pytestmark = pytest.mark.slow

Mask = npt.NDArray[np.bool_]
REGIONS = np.array(["east", "north", "south", "west"])


@cache
def prices(n: int = 1600, shift: float = 1.0, d: int = 3, seed: int = 0) -> tuple[pd.DataFrame, Floats]:
    """Two forecasts of some prices that know nothing of regions, and the prices: the first is lower in the north."""
    rng = np.random.default_rng(seed)
    signal = rng.normal(size=(n, d))
    first, second = signal + 0.5 * rng.normal(size=(2, n, d))
    names = [f"{model}_{j}" for model in "ab" for j in range(d)]
    table = pd.DataFrame(np.concatenate([first, second], axis=1), columns=names)
    table["region"], table["half"] = REGIONS[rng.integers(4, size=n)], rng.integers(2, size=n)
    return table, signal + 0.5 * rng.normal(size=(n, d)) - shift * np.outer(table["region"] == "north", np.eye(d)[0])


def members(d: int = 3) -> list[tuple[str, oe.Columns]]:
    return [(model, oe.Columns([f"{model}_{j}" for j in range(d)])) for model in "ab"]


def make(subgroups: Any = "region", d: int = 3, **parameters: Any) -> oe.DecisionEnsemble:
    omega = feasible.Simplex(d) if d == 3 else feasible.TopK(d, 3)
    return oe.DecisionEnsemble(members(d), feasible=omega, subgroups=subgroups, **parameters)


@cache
def fitted(subgroups: Any = "region", shift: float = 1.0, d: int = 3, seed: int = 0) -> oe.DecisionEnsemble:
    """Fitted on the first half of the rows; it is shared."""
    table, Y = prices(shift=shift, d=d, seed=seed)
    return make(subgroups, d).fit(table[:800], Y[:800])


def answers(ensemble: oe.DecisionEnsemble, X: Any) -> list[Any]:
    answer = ensemble.answer(X)
    return [answer.actions, answer.promised, answer.chosen, answer.predictions]


def same(left: list[Any], right: list[Any]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(left, right, strict=True))


def state(ensemble: oe.DecisionEnsemble, X: Any) -> list[Any]:
    return [*answers(ensemble, X), ensemble.record_.assessed, ensemble.record_.realised, ensemble.names_]


def payoff(actions: Floats, labels: Floats) -> Floats:
    return np.asarray((actions * labels).sum(axis=1))


# Parts


labels = st.lists(st.one_of(st.sampled_from("abc"), st.integers(-2, 2), st.floats(-1, 1)), min_size=1, max_size=30)


@hypothesis.given(old=labels, new=labels)
def test_a_row_is_in_the_part_of_its_value_and_unseen_values_share_the_last(old: list[Any], new: list[Any]) -> None:
    def column(X: list[Any]) -> npt.NDArray[Any]:
        return np.array(X, dtype=object)

    found = Subgroups.learn(column, [old[:3], old[3:]] if len(old) > 3 else [old])
    assert found is not None
    ((parts,), (titles,)) = found(new), found.titles
    assert len(titles) == len(set(old)) + 1
    for value, part in zip(new, parts, strict=True):
        if value in old:
            assert found.grouping.values[0][part] == value
            assert titles[part] in {f"group={each}" for each in old if each == value}
        else:
            assert titles[part] == "group unseen"
            assert part == len(titles) - 1


def test_groups_keep_their_numbers_when_more_are_learned() -> None:
    first = Grouping(()).learn([["b", "c"]])
    second = first.learn([["a", "c", "d"]])
    assert second.values == (("b", "c", "a", "d"),)
    np.testing.assert_array_equal(first([["c", "a", "b"]]), [[1, 2, 0]])
    np.testing.assert_array_equal(second([["c", "a", "new"]]), [[1, 2, 4]])


def test_parts_are_called_after_the_columns_that_they_are_found_in() -> None:
    grouping = Grouping((("north",), (0, 1)))
    named = (("region=north", "region unseen"), ("half=0", "half=1", "half unseen"))
    assert part_titles(["region", "half"], grouping) == named
    assert part_titles((2, 3), grouping) == (
        ("column 2=north", "column 2 unseen"),
        ("column 3=0", "column 3=1", "column 3 unseen"),
    )
    assert part_titles(len, grouping)[1] == ("group 1=0", "group 1=1", "group 1 unseen")


@pytest.mark.parametrize("nothing", [None, [], ()])
def test_no_columns_are_no_subgroups(nothing: Any) -> None:
    table, _ = prices()
    ensemble = fitted(None) if nothing is None else make(nothing).fit(table[:800], prices()[1][:800])
    assert same(state(ensemble, table), state(fitted(None), table))
    assert not ensemble.guarantees_["quantity"].str.contains("subgroups").any()


def test_columns_may_be_named_listed_numbered_or_returned() -> None:
    table, Y = prices()
    array = table.to_numpy(dtype=object)
    by_number = [(model, oe.Columns([3 * m, 3 * m + 1, 3 * m + 2])) for m, model in enumerate("ab")]
    expected = state(fitted(), table)
    for rule, X in (
        (["region"], table),
        (("region",), table),
        (lambda X: X["region"], table),
        (lambda X: X[["region"]], table),
        ("region", pl.DataFrame(table)),
        ("region", table.astype({"region": "category"})),
    ):
        assert same(state(make(rule).fit(X[:800], Y[:800]), X), expected)
    numbered = oe.DecisionEnsemble(by_number, feasible=feasible.Simplex(3), subgroups=6).fit(array[:800], Y[:800])
    assert same(state(numbered, array), expected)


# The patch


def region_masks(table: pd.DataFrame) -> list[Mask]:
    return [(table["region"] == region).to_numpy() for region in REGIONS]


def cells(outputs: MemberOutputs, forecast: Floats, table: pd.DataFrame) -> list[Mask]:
    """Level sets of members and of the forecast, who promises most of two models, and regions; each with room."""
    policies = [*outputs.actions, outputs.omega.argmax(forecast)]
    masks = [mask for actions in policies for mask in level_set_masks(actions, outputs.omega, 10)]
    claims = np.stack([payoff(outputs.actions[m], outputs.predictions[m]) for m in range(2)])
    none = np.zeros(len(forecast), dtype=bool)
    known = np.logical_or.reduce(region_masks(table))
    return [*masks, claims[0] >= claims[1], claims[0] < claims[1], none, *region_masks(table), ~known]


def ridge(masks: list[Mask], residual: Floats, penalty: float) -> Floats:
    Z = np.stack(masks, axis=1).astype(float)
    return np.asarray(np.linalg.solve(Z.T @ Z + penalty * np.eye(len(masks)), Z.T @ residual))


def textbook_patch(
    outputs: MemberOutputs, forecast: Floats, Y: Floats, table: pd.DataFrame
) -> list[tuple[list[int], Floats]]:
    """Regions alone, then at most twice all cells, as long as the out-of-fold loss falls by a standard error."""
    parts, found = folds(len(Y), random_state=0), []
    for alone in (True, False, False):
        masks = cells(outputs, forecast, table)
        enough = [number for number, mask in enumerate(masks) if mask.sum() >= 50]
        kept = [number for number in enough if number >= len(masks) - 5] if alone else enough
        chosen, residual, best, corrected = [masks[c] for c in kept], Y - forecast, 0.0, forecast
        for penalty in (1000.0, 100.0, 10.0):
            weaker = forecast.copy()
            for train, test in parts:
                delta = ridge([mask[train] for mask in chosen], residual[train], penalty)
                weaker[test] += np.stack([mask[test] for mask in chosen], axis=1) @ delta
            if np.square(Y - weaker).sum() >= np.square(Y - corrected).sum():
                break
            best, corrected = penalty, weaker
        gain = np.square(residual).sum(axis=1) - np.square(Y - corrected).sum(axis=1)
        if best and gain.mean() > stats.sem(gain):
            found.append((kept, ridge(chosen, residual, best)))
            forecast = corrected
        elif not alone:
            break
    return found


@pytest.mark.parametrize(("shift", "slope"), [(1.0, 0.8), (1.0, 0.4), (0.0, 0.8)])
def test_subgroups_are_corrected_by_themselves_and_then_with_all_cells(shift: float, slope: float) -> None:
    table, Y = prices(shift=shift)
    old = table[:800]
    outputs = fitted()._query()(old)
    forecast = slope * outputs.predictions.mean(axis=0)  # where the slope is too low, level sets are biased too
    with threadpool_limits(1):
        log = Learned.of(FitRows.of(outputs, Y[:800]), forecast).forecaster.patch
    expected = textbook_patch(outputs, forecast, Y[:800], old)
    assert log is not None
    assert log.layout.count == len(cells(outputs, forecast, old))
    assert len(log.rounds) == len(expected) > 0
    for (patch,), (kept, delta) in zip(log.rounds, expected, strict=True):
        assert patch.cells.tolist() == kept
        np.testing.assert_allclose(patch.delta, delta, atol=1e-8)
    assert (len(expected[0][0]) == len(REGIONS)) == (shift > 0)
    if shift:
        assert expected[0][1][1, 0] == pytest.approx(-shift, abs=0.2)


def test_rows_are_corrected_by_what_is_in_the_log_unseen_regions_too() -> None:
    table, _ = prices()
    new = table[800:].assign(region=np.where(np.arange(800) % 3 == 0, "atlantis", table["region"][800:]))
    outputs, forecaster = fitted()._query()(new), fitted().decider_.forecaster
    said = forecaster(outputs).forecasts
    forecast = said["refined" if "refined" in said else "stack"]
    assert forecaster.patch is not None
    for (patch,) in forecaster.patch.rounds:
        masks = cells(outputs, forecast, new)
        forecast = forecast + np.stack([masks[c] for c in patch.cells], axis=1) @ patch.delta
    np.testing.assert_allclose(said["patched"], forecast, atol=1e-9)


def test_subgroups_are_kept_before_level_sets_where_there_are_too_many_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_patching, "MOST_CELLS", 8)
    rng = np.random.default_rng(0)
    regions = np.repeat(np.arange(3), [60, 500, 40])
    omega = feasible.Box(np.zeros(2), np.ones(2))
    outputs = MemberOutputs(
        predictions=np.empty((0, 600, 2)),
        actions=rng.uniform(size=(2, 600, 2)) ** 2,  # more than 60 rows in the lowest level sets
        omega=omega,
        buckets=Buckets(omega.lower, omega.upper, 10),
        subgroups=regions[None].astype(np.int32),
        titles=(("region=0", "region=1", "region=2", "region unseen"),),
    )
    forecast, noise = rng.normal(size=(2, 600, 2))
    learned = Learned.of(FitRows.of(outputs, forecast + noise), forecast)
    found = learned.selection
    masks = [
        mask for actions in (*outputs.actions, omega.argmax(forecast)) for mask in level_set_masks(actions, omega, 10)
    ]
    masks += [regions == part for part in range(4)]
    counts, start = np.array([mask.sum() for mask in masks]), len(masks) - 4
    assert (
        learned.cells.subgroups.tolist() == found.kept[-2:].tolist() == [start, start + 1]
    )  # the third has too few rows
    level_sets = np.argsort(-counts[:start], kind="stable")[:6]
    assert counts[level_sets].min() > counts[start]
    assert found.kept[:6].tolist() == sorted(level_sets.tolist())
    assert found.cut == (counts >= 50).sum() - 8


# Effect


def bias(ensemble: oe.DecisionEnsemble, table: pd.DataFrame, Y: Floats, region: str = "north") -> Floats:
    rows = (table["region"] == region).to_numpy()
    return np.asarray((Y - ensemble.predict(table))[rows, 0])


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("d", [3, 12])
def test_a_region_that_no_model_knows_of_is_repaired(d: int, seed: int) -> None:
    table, Y = prices(20_800, d=d, seed=seed)
    old, new, Y_old, Y_new = table[:800], table[800:], Y[:800], Y[800:]
    blind, aware = (make(subgroups, d).fit(old, Y_old) for subgroups in (None, "region"))
    before, after = bias(blind, new, Y_new), bias(aware, new, Y_new)
    assert before.mean() < -0.5  # the average over regions is all that it can know
    assert before.mean() < -10 * stats.sem(before)
    assert np.abs(after.mean()) < 0.3 * np.abs(before.mean())
    gain = payoff(aware.decide(new), Y_new) - payoff(blind.decide(new), Y_new)
    assert gain.mean() > 2 * stats.sem(gain)


@pytest.mark.no_cover
def test_promises_are_kept_with_subgroups_as_without() -> None:
    kept = 0
    for seed in range(20):
        table, Y = prices(2300, seed=seed)
        ensemble = make().fit(table[:300], Y[:300])
        promise, earned = ensemble.promise(table[300:]), payoff(ensemble.decide(table[300:]), Y[300:]).mean()
        kept += promise.low <= earned <= promise.high
    assert stats.binom.cdf(kept, 20, 0.95) > 0.01


@pytest.mark.parametrize("seed", range(6))
def test_regions_that_say_nothing_do_no_harm(seed: int) -> None:
    table, Y = prices(shift=0.0, seed=seed)
    blind, aware = (fitted(subgroups, 0.0, seed=seed) for subgroups in (None, "region"))
    gain = payoff(aware.decide(table[800:]), Y[800:]) - payoff(blind.decide(table[800:]), Y[800:])
    if "patched" in aware.names_:
        assert abs(gain.mean()) <= 2 * stats.sem(gain) + 1e-3
    else:
        np.testing.assert_array_equal(aware.predict(table), blind.predict(table))
        assert not gain.any()


def test_costs_are_the_mirror_of_payoffs() -> None:
    table, Y = prices()
    negated = table.assign(**{name: -table[name] for name in table.columns[:6]})
    costing = make(sense="min").fit(negated[:800], -Y[:800])
    np.testing.assert_array_equal(costing.decide(negated), fitted().decide(table))
    np.testing.assert_array_equal(costing.predict(negated), -fitted().predict(table))


def test_policies_alone_are_corrected_by_region_too() -> None:
    table, Y = prices(4800)
    omega = feasible.Simplex(3)
    policies = [(name, lambda X, m=model: omega.argmax(m(X))) for name, model in members()]
    blind, aware = (
        oe.DecisionEnsemble(policies=policies, feasible=omega, subgroups=rule).fit(table[:800], Y[:800])
        for rule in (None, "region")
    )
    before, after = bias(blind, table[800:], Y[800:]), bias(aware, table[800:], Y[800:])
    assert np.abs(after.mean()) < 0.3 * np.abs(before.mean())


def test_rows_and_threads_in_any_number_give_the_same_bits() -> None:
    table, Y = prices()
    threaded = make().fit(table[:800], Y[:800], n_jobs=2)
    assert same(state(threaded, table), state(fitted(), table))
    few = answers(fitted(), table[900:905])
    np.testing.assert_array_equal(few[0], fitted().decide(table)[900:905])
    assert fitted().decide(table[:0]).shape == (0, 3)


def test_rows_may_belong_together_by_one_column_and_be_corrected_by_another() -> None:
    table, Y = prices()
    customers = np.arange(1600) // 4
    with_customers = table.assign(customer=customers)
    ensemble = make().fit(with_customers[:800], Y[:800], groups="customer")
    np.testing.assert_array_equal(ensemble.record_.clusters, customers[:800])
    assert ensemble._subgroups == fitted()._subgroups
    assert np.abs(bias(ensemble, with_customers[800:], Y[800:]).mean()) < 0.2


# Guarantees and audit


@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_guarantees_tell_how_consistent_it_is_on_subgroups_out_of_fold(shift: float) -> None:
    table, Y = prices(shift=shift)
    ensemble, old = fitted(shift=shift), table[:800]
    with threadpool_limits(1):
        forecast = Learned.of(FitRows.of(ensemble._query()(old), Y[:800])).predictions
    told = ensemble.guarantees_.set_index("quantity").loc["worst Pr[C]·|E[y − h | C]| of 4 subgroups"]
    assert told["lemma"] == "Definition 1"
    assert told["observed"] == pytest.approx(max(violation(mask, Y[:800] - forecast) for mask in region_masks(old)))
    assert told["low"] <= told["observed"] <= told["high"]
    assert ("patched" in ensemble.names_) == (shift > 0)
    assert (ensemble.guarantees_["lemma"] == "Definition 1").sum() == (2 if shift else 1)


def test_an_audit_looks_at_every_subgroup_by_name() -> None:
    table, Y = prices()
    new = table[800:].assign(region=np.where(np.arange(800) % 10 == 0, "atlantis", table["region"][800:]))
    audit, residual = fitted().audit(new, Y[800:]), Y[800:] - fitted().predict(new)
    everywhere, worst = audit.conditional.set_index("cell"), audit.cells.set_index(["cell", "coordinate"])
    earned = payoff(fitted().decide(new), Y[800:])
    for region in (*REGIONS, "atlantis"):
        name = "region unseen" if region == "atlantis" else f"region={region}"
        rows = (new["region"] == region).to_numpy()
        assert everywhere.loc[name, "rows"] == rows.sum()
        assert everywhere.loc[name, "realised"] == pytest.approx(earned[rows].mean())
        for j in range(3):
            if (name, j) in worst.index:
                assert worst.loc[(name, j), "bias"] == pytest.approx(residual[rows, j].mean(), abs=1e-12)
    assert any(name.startswith("region=") for name, _ in worst.index)
    assert not fitted(None).audit(new, Y[800:]).conditional["cell"].str.startswith("region").any()


# Later rows


def test_extending_is_fitting_on_all_rows() -> None:
    table, Y = prices()
    other = table.assign(region=np.where(np.arange(1600) < 700, table["region"], "atlantis"))
    ensemble = make().fit(other[:400], Y[:400])
    ensemble.extend(X=other[400:800], Y=Y[400:800])
    assert same(state(ensemble, other), state(make().fit(other[:800], Y[:800]), other))
    assert "region=atlantis" in set(ensemble.audit(other[800:], Y[800:]).conditional["cell"])


def test_an_update_leaves_decisions_and_subgroups_as_they_are() -> None:
    table, Y = prices()
    ensemble = make().fit(table[:800], Y[:800])
    before = ensemble.decide(table[1200:])
    new = table[800:1200].assign(region="atlantis")
    ensemble.update(new, Y[800:1200])
    np.testing.assert_array_equal(ensemble.decide(table[1200:]), before)
    assert ensemble._subgroups == fitted()._subgroups
    np.testing.assert_allclose(
        ensemble.record_.realised[800:], payoff(fitted().decide(new), Y[800:1200]), rtol=1e-12, atol=1e-12
    )


def test_subgroups_that_are_set_later_wait_for_the_next_fit() -> None:
    table, Y = prices()
    ensemble = make().fit(table[:800], Y[:800])
    assert ensemble.set_params(subgroups="half").get_params()["subgroups"] == "half"
    assert same(answers(ensemble, table), answers(fitted(), table))
    ensemble.fit(table[:800], Y[:800])
    assert ensemble._subgroups.titles == (("half=0", "half=1", "half unseen"),)  # type: ignore[union-attr]


# Files


@pytest.mark.parametrize("rule", ["region", ["region", "half"]])
def test_columns_of_subgroups_are_in_the_file(rule: Any, tmp_path: Path) -> None:
    table, Y = prices()
    ensemble = make(rule).fit(table[:800], Y[:800])
    ensemble.save(tmp_path / "ensemble.oe")
    strange = table[800:].assign(region="atlantis")
    for again in (oe.load(tmp_path / "ensemble.oe"), oe.load(tmp_path / "ensemble.oe", subgroups=rule)):
        assert same(state(again, table), state(ensemble, table))
        assert same(answers(again, strange), answers(ensemble, strange))
        assert again.subgroups == rule
        pd.testing.assert_frame_equal(again.guarantees_, ensemble.guarantees_)
        assert again.audit(table[800:], Y[800:]).cells["cell"].str.startswith("region=north").any()
    with pytest.raises(InputError, match=r"fitted with subgroups=.*got 'half'. Leave them out"):
        oe.load(tmp_path / "ensemble.oe", subgroups="half")
    again.fit(table[:800], Y[:800])
    assert same(state(again, table), state(ensemble, table))


def test_subgroups_by_a_callable_are_given_again(tmp_path: Path) -> None:
    def halves(X: pd.DataFrame) -> Any:
        return X["region"].isin(["north", "east"])

    table, Y = prices()
    ensemble = make(halves).fit(table[:800], Y[:800])
    ensemble.save(tmp_path / "ensemble.oe")
    assert same(state(oe.load(tmp_path / "ensemble.oe", subgroups=halves), table), state(ensemble, table))
    for wrong in (None, "region"):
        with pytest.raises(
            InputError, match=r"subgroups were a callable and must be given again: load\(path, subgroups="
        ):
            oe.load(tmp_path / "ensemble.oe", subgroups=wrong)


def test_groups_are_not_given_to_a_file_without_subgroups(tmp_path: Path) -> None:
    fitted(None).save(tmp_path / "ensemble.oe")
    with pytest.raises(InputError, match=r"fitted with subgroups=None; got 'region'. Leave them out"):
        oe.load(tmp_path / "ensemble.oe", subgroups="region")


def test_a_file_of_the_time_before_subgroups_is_read(tmp_path: Path) -> None:
    table, _ = prices()
    fitted(None).save(tmp_path / "new.oe")
    document, arrays = _archive.read_archive(tmp_path / "new.oe")
    assert document.pop("subgroups") is None
    _archive.write_archive(tmp_path / "old.oe", document, arrays)
    with zipfile.ZipFile(tmp_path / "old.oe") as archive:
        assert "subgroups" not in json.loads(archive.read("ensemble.json"))
    assert same(state(oe.load(tmp_path / "old.oe"), table), state(fitted(None), table))


# Errors


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("regoin", "X has no column 'regoin' to take groups from. Did you mean 'region'?"),
        (
            np.arange(800) % 3,
            "subgroups must be a column of X, a list of columns, or a callable of X; got ndarray. Put",
        ),
        (pd.Series(["north"] * 800), "subgroups must be a column of X.*got Series. Put the labels of the rows into a"),
        (0.5, "subgroups must be a column of X.*got float"),
        (["region", len], "subgroups must be a column of X.*got list"),
        (lambda X: np.zeros(3), "must return one label for each of the 800 rows"),
        (lambda X: [None] * len(X), "group labels must not be missing; they are in rows 0, 1, 2, 3, 4 and 795 more"),
    ],
)
def test_invalid_subgroups_are_refused(rule: Any, words: str) -> None:
    table, Y = prices()
    ensemble = make(rule)
    with pytest.raises(InputError, match=words):
        ensemble.fit(table[:800], Y[:800])
    assert not hasattr(ensemble, "decider_")


def test_an_error_of_a_callable_says_where_it_comes_from() -> None:
    table, Y = prices()
    with pytest.raises(KeyError, match="district") as caught:
        make(lambda X: X["district"]).fit(table[:800], Y[:800])
    assert caught.value.__notes__ == ["This came from the subgroups of the ensemble."]


def test_rows_without_the_column_cannot_be_decided() -> None:
    with pytest.raises(InputError, match="X has no column 'region' to take groups from"):
        fitted().decide(prices()[0].drop(columns="region"))


def test_a_callable_must_go_on_as_it_began() -> None:
    table, Y = prices()
    ensemble = make(lambda X: X[["region", "half"]] if len(X) == 800 else X["region"]).fit(table[:800], Y[:800])
    words = (
        r"subgroups\(X\) returned 1 label\(s\) of every row, but 2 of the first rows fitted on. Let it return as many"
    )
    with pytest.raises(InputError, match=words):
        ensemble.decide(table[:10])
    with pytest.raises(InputError, match=words):
        ensemble.extend(X=table[800:900], Y=Y[800:900])
    assert ensemble.n_rows_ == 800
