"""Mistakes with values: text for numbers, gaps, codes, weights, and members that fail."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl

import optensemble as oe
from optensemble import feasible
from tests.mistakes.mistake import Group, Seen
from tests.mistakes.names import seen
from tests.mistakes.worlds import FAR, LABELS, MODELS, NEAR, PLAN, World, audited, ensemble, numbers

TYPES, GAPS, WEIGHTS = Group("Types"), Group("Gaps"), Group("Weights and groups")


def gappy(w: World, rows: Any, columns: Any = NEAR[:1]) -> pd.DataFrame:
    """X without values in some rows of some columns."""
    X = w.X.copy()
    X.iloc[rows, X.columns.get_indexer(columns).tolist()] = np.nan
    return X


def late(w: World, rows: Any, columns: Any = LABELS) -> pd.DataFrame:
    """Labels of which some are missing."""
    Y = w.Y.copy()
    Y.iloc[rows, Y.columns.get_indexer(columns).tolist()] = np.nan
    return Y


# Types


@TYPES.put_right("numbers are in columns of dtype object", before="the same")
def _(w: World) -> Seen:
    return seen(ensemble().fit(w.X.astype(dict.fromkeys(NEAR, object)), w.Y.astype(object)), w)


@TYPES.put_right("columns have nullable types", before="the same")
def _(w: World) -> Seen:
    return seen(ensemble().fit(w.X.convert_dtypes(), w.Y.astype("Float64")), w)


@TYPES.refused(
    "a label column is text",
    "column 'price_south' of the labels Y must be numeric",
    before="text was taken for numbers",
)
def _(w: World) -> Seen:
    return seen(ensemble().fit(w.X, w.Y.assign(price_south=w.Y["price_south"].astype(str))), w)


@TYPES.refused("one value of a model is the text `n/a`", "column 'near_south' of X must be numeric", before="the same")
def _(w: World) -> Seen:
    column = w.X["near_south"].astype(object)
    column.iloc[3] = "n/a"
    return seen(ensemble().fit(w.X.assign(near_south=column), w.Y), w)


@TYPES.refused("numbers are text with decimal commas", "column 'near_south' of X must be numeric", before="the same")
def _(w: World) -> Seen:
    text = w.X["near_south"].map("{:.3f}".format).str.replace(".", ",")
    return seen(ensemble().fit(w.X.assign(near_south=text), w.Y), w)


@TYPES.refused("a label column holds dates", "must be numeric; got datetime64", before="refused, the column not named")
def _(w: World) -> Seen:
    return seen(ensemble().fit(w.X, w.Y.assign(price_west=w.days)), w)


@TYPES.refused(
    "one row is given to `decide` as a series, `X.iloc[0]`",
    r"got Series \(14,\). Give a single row as",
    before="refused, without advice",
)
def _(w: World) -> Seen:
    fitted = ensemble().fit(w.X, w.Y)
    return Seen(numbers(fitted, w.X_new.iloc[0]))


@TYPES.put_right("labels are a frame without names, `pd.DataFrame(values)`", before="the same")
def _(w: World) -> Seen:
    return seen(ensemble().fit(w.X, pd.DataFrame(w.Y.to_numpy())), w, ensemble().fit(w.X, w.Y.to_numpy()))


# Gaps


@GAPS.done(
    "one value of a model is missing", r"'near' has no answer in 1 of 500 rows", before="refused: NaN or infinity"
)
def _(w: World) -> Seen:
    fitted = ensemble().fit(gappy(w, [7]), w.Y)
    return Seen(numbers(fitted, w.X_new), notes=tuple(fitted.notes_))


@GAPS.done("nullable columns have `NA`", r"'near' has no answer in 2 of 500 rows", before="refused: NaN or infinity")
def _(w: World) -> Seen:
    fitted = ensemble().fit(gappy(w, [7, 9]).convert_dtypes(), w.Y)
    return Seen(numbers(fitted, w.X_new), notes=tuple(fitted.notes_))


@GAPS.done("a polars frame has nulls", r"'near' has no answer in 3 of 500 rows", before="refused: NaN or infinity")
def _(w: World) -> Seen:
    X = (
        pl.from_pandas(w.X)
        .with_row_index()
        .with_columns(pl.when(pl.col("index") < 3).then(None).otherwise(pl.col("near_west")).alias("near_west"))
    )
    fitted = ensemble().fit(X, pl.from_pandas(w.Y))
    return Seen(numbers(fitted, X[:9]), notes=tuple(fitted.notes_))


@GAPS.done(
    "a plan is missing in some rows", r"'plan' has no answer in 20 of 500 rows", before="refused: NaN or infinity"
)
def _(w: World) -> Seen:
    fitted = ensemble().fit(gappy(w, slice(20), ["plan_north", "plan_south", "plan_west"]), w.Y)
    return Seen(numbers(fitted, w.X_new), notes=tuple(fitted.notes_))


@GAPS.done(
    "a model stops after the fit: it is missing in all new rows", r"\{'near': 160\}", before="refused: NaN or infinity"
)
def _(w: World) -> Seen:
    fitted = ensemble().fit(w.X, w.Y)
    new = w.X_new.assign(**dict.fromkeys(NEAR, np.nan))
    return Seen(numbers(fitted, new), notes=(f"Answer.absent is {fitted.answer(new).absent}",))


@GAPS.done(
    "no member has an answer in a new row", r"\{'near': 1, 'far': 1, 'plan': 1\}", before="refused: NaN or infinity"
)
def _(w: World) -> Seen:
    fitted, new = ensemble().fit(w.X, w.Y), w.X_new[:20].copy()
    new.loc[new.index[3], [*NEAR, *FAR, *PLAN]] = np.nan
    return Seen(numbers(fitted, new), notes=(f"Answer.absent is {fitted.answer(new).absent}", str(fitted.promise(new))))


@GAPS.refused(
    "a white box is given a model with a gap", "must be finite; got NaN or infinity in row 7", before="the same"
)
def _(w: World) -> Seen:
    oe.WhiteBoxEnsemble(list(MODELS), feasible.Simplex(3)).fit(gappy(w, [7]), w.Y)
    return Seen()


@GAPS.told(
    "a model is missing in most rows",
    "in 400 of 500 rows.*rests on few rows",
    before="refused: NaN or infinity",
    kind="AbsentWarning",
)
def _(w: World) -> Seen:
    return seen(ensemble().fit(gappy(w, slice(400)), w.Y), w)


@GAPS.refused(
    "a model is missing in all rows",
    "'near' has no answer in any of the 500 rows.*Leave it out",
    before="refused: NaN or infinity",
)
def _(w: World) -> Seen:
    return seen(ensemble().fit(gappy(w, slice(None)), w.Y), w)


@GAPS.refused(
    "a value of a model is infinite",
    "model 'near' must be finite; got NaN or infinity in row 7 of 500",
    before="the same",
)
def _(w: World) -> Seen:
    return seen(ensemble().fit(gappy(w, [7]).fillna(np.inf), w.Y), w)


@GAPS.refused("labels are missing", "missing_labels='drop'", before="refused: NaN or infinity")
def _(w: World) -> Seen:
    return seen(ensemble().fit(w.X, late(w, [3, 4])), w)


@GAPS.refused("a polars frame of labels has nulls", "missing_labels='drop'", before="refused: NaN or infinity")
def _(w: World) -> Seen:
    labels = pl.from_pandas(late(w, [3]), nan_to_null=True)
    return seen(ensemble().fit(pl.from_pandas(w.X), labels), w)


@GAPS.done(
    'the last labels are late, with `missing_labels="drop"`', "30 of 500 rows have no labels", before="no such option"
)
def _(w: World) -> Seen:
    fitted = ensemble().fit(w.X, late(w, slice(470, None)), missing_labels="drop")
    clean = ensemble().fit(w.X[:470], w.Y[:470])
    return Seen(numbers(fitted, w.X_new), numbers(clean, w.X_new), tuple(fitted.notes_))


@GAPS.refused(
    'no row has labels, with `missing_labels="drop"`', "at least 100 rows to fit on; got 0", before="no such option"
)
def _(w: World) -> Seen:
    return seen(ensemble().fit(w.X, late(w, slice(None)), missing_labels="drop"), w)


@GAPS.done(
    'labels of the rows to audit are late, with `missing_labels="drop"`', "unlabelled is 40", before="no such option"
)
def _(w: World) -> Seen:
    fitted, later = ensemble().fit(w.X, w.Y), w.Y_new.copy()
    later.iloc[120:] = np.nan
    found = fitted.audit(w.X_new, later, missing_labels="drop")
    clean, note = fitted.audit(w.X_new[:120], w.Y_new[:120]), f"Audit.totals.unlabelled is {found.totals.unlabelled}"
    return Seen(audited(found), audited(clean), (note,))


@GAPS.told(
    "a missing value of a model is coded as −999",
    "is −999 in 3 of 500 rows.*code for a missing",
    before="nothing said; 14 of 160 rows decided otherwise",
)
def _(w: World) -> Seen:
    return seen(ensemble().fit(gappy(w, [3, 50, 200]).fillna(-999.0), w.Y), w)


@GAPS.told(
    "a missing label is coded as 9999",
    "'price_south' is 9999 in 2 of 500 rows",
    before="nothing said; promised 39.10 instead of 5.84",
)
def _(w: World) -> Seen:
    return seen(ensemble().fit(w.X, late(w, [3, 50], ["price_south"]).fillna(9999.0)), w)


@GAPS.told(
    "missing values of a model were filled with 0",
    "is 0 in 25 of 500 rows.*If 0 stands for a missing value, give NaN",
    before="nothing said; promised 5.91 instead of 5.84",
)
def _(w: World) -> Seen:
    return seen(ensemble().fit(gappy(w, slice(0, None, 20), NEAR).fillna(0.0), w.Y), w)


@GAPS.refused(
    "a member fails on new rows",
    "the service is down.*This came from the member 'near'",
    before="the same",
    kind="ConnectionError",
)
def _(w: World) -> Seen:
    return seen(ensemble([("near", Down(500)), MODELS[1]]).fit(w.X, w.Y), w)


class Down:
    """A service that is down when it is asked about new rows."""

    def __init__(self, known: int) -> None:
        self.known = known

    def predict(self, X: pd.DataFrame) -> pd.DataFrame:
        if len(X) != self.known:
            raise ConnectionError("the service is down")
        return X[NEAR]


@GAPS.told(
    'a member fails on new rows, with `on_error="absent"`',
    "ConnectionError",
    before="no such option",
    kind="AbsentWarning",
)
def _(w: World) -> Seen:
    fitted = ensemble([("near", Down(500)), MODELS[1]], on_error="absent").fit(w.X, w.Y)
    return Seen(numbers(fitted, w.X_new), notes=(f"Answer.absent is {fitted.answer(w.X_new).absent}",))


# Weights and groups


def weighted(w: World, weights: Any) -> Seen:
    return seen(ensemble().fit(w.X, w.Y, sample_weight=weights), w)


@WEIGHTS.refused("a weight is negative", "between 0 and .*got -1 in row 7 of 500", before="no such option")
def _(w: World) -> Seen:
    return weighted(w, np.where(np.arange(500) == 7, -1.0, 1.0))


@WEIGHTS.refused("a weight is NaN", "got nan in row 7 of 500", before="no such option")
def _(w: World) -> Seen:
    return weighted(w, np.where(np.arange(500) == 7, np.nan, 1.0))


@WEIGHTS.refused("all weights are 0", "sum to 0; .*Scale the weights", before="no such option")
def _(w: World) -> Seen:
    return weighted(w, np.zeros(500))


@WEIGHTS.refused("weights are shares that sum to 1", "sum to 1; .*Scale the weights", before="no such option")
def _(w: World) -> Seen:
    return weighted(w, np.full(500, 1 / 500))


@WEIGHTS.refused("weights are a column that X does not have", "no column 'wieght'", before="no such option")
def _(w: World) -> Seen:
    return weighted(w, "wieght")


@WEIGHTS.refused("a group is missing in some rows", "must not be missing; they are in row 7 of 500", before="the same")
def _(w: World) -> Seen:
    return seen(ensemble().fit(w.X, w.Y, groups=w.X["customer"].astype(float).where(np.arange(500) != 7)), w)


@WEIGHTS.refused("all rows are in one group", "at least 5 different labels.*got 1", before="refused")
def _(w: World) -> Seen:
    return seen(ensemble().fit(w.X, w.Y, groups=["one"] * 500), w)


@WEIGHTS.refused(
    "groups were given to `fit`, and not to `update`", "Give groups= for these rows too", before="the same"
)
def _(w: World) -> Seen:
    fitted = ensemble().fit(w.X, w.Y, groups=w.X["customer"].to_numpy())
    return seen(fitted.update(w.X_new, w.Y_new), w)


@WEIGHTS.refused(
    "`groups` of `fit` are really subgroups: hills and coasts",
    "got 2.*they are subgroups",
    before="refused, without a word on subgroups",
)
def _(w: World) -> Seen:
    return seen(ensemble().fit(w.X, w.Y, groups=w.X["region"] == w.X["region"].iloc[0]), w)
