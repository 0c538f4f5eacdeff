"""Types of which stored estimators may consist without being trusted by name.

skops trusts every estimator of scikit-learn. That is not enough here: what a file says must not reach compiled code
unchecked, and some estimators hand their arrays to compiled code as they are (support vectors, neighbours, clusters).
Listed below are types that were reviewed, each by the module that defines it, because other modules lend their names
to whatever they import. Whatever the attributes of such a type are, loading one and asking it for predictions stays in
Python and numpy, which check shapes and bounds, or ends in compiled code whose input
:mod:`~optensemble.persistence.estimator_checks` has checked. None of them calls what a file names: functions are only
those listed here, where they belong. All else is asked for, and not imported before it is trusted.
"""

from __future__ import annotations

import re

from optensemble.persistence.parts import Wrong

TREE = "sklearn.tree._tree.Tree"
TREES = frozenset(["sklearn.tree._classes.DecisionTreeRegressor", "sklearn.tree._classes.ExtraTreeRegressor"])
PREDICTOR = "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor"
BIN_MAPPER = "sklearn.ensemble._hist_gradient_boosting.binning._BinMapper"
BOOSTING = "sklearn.ensemble._gb.GradientBoostingRegressor"
ENCODER = "sklearn.preprocessing._encoders.OneHotEncoder"
STACKING = "sklearn.ensemble._stacking.StackingRegressor"
CHAIN = "sklearn.multioutput.RegressorChain"
DUMMY = "sklearn.dummy.DummyRegressor"
POLYNOMIAL = "sklearn.preprocessing._polynomial.PolynomialFeatures"
FUNCTION = "sklearn.preprocessing._function_transformer.FunctionTransformer"
COLUMNS = "sklearn.compose._column_transformer.ColumnTransformer"
SCORER = "sklearn.metrics._scorer._Scorer"
BUNCH = "sklearn.utils._bunch.Bunch"
MASKED = frozenset(["numpy.ma.MaskedArray", "numpy.ma.core.MaskedArray"])
OF_BOOSTERS = frozenset(["builtins.bytearray", "builtins.bytes", "collections.defaultdict", "collections.OrderedDict"])
"""Types that are no danger by themselves, of which only objects of types that are trusted by name have need."""

LOADERS_OF_CHECKED = {TREE: "TreeNode", PREDICTOR: "ObjectNode"}
"""Types of which skops makes objects in one way alone in files of ours; any other way would go around the check."""

_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
_LONGEST_NAME = 200


def full_name(kind: type) -> str:
    """Return the name of a type by the module that defines it."""
    return f"{kind.__module__}.{kind.__qualname__}"


def require_name(name: str) -> None:
    """Raise :class:`Wrong` unless a name can be that of a type: it will be shown, and pasted into a command line."""
    if len(name) > _LONGEST_NAME or not _NAME.fullmatch(name):
        raise Wrong("the name of a type", f"have words with dots between, at most {_LONGEST_NAME} letters", name)
    if ".tests." in name:  # modules that import whatever they test, and run code when they are imported
        raise Wrong("a type", "not come from the tests of a library", name)


def _of(module: str, names: str) -> frozenset[str]:
    return frozenset(f"sklearn.{module}.{name}" for name in names.split())


_CLASSES = (
    _of("linear_model._base", "LinearRegression")
    | _of("linear_model._bayes", "ARDRegression BayesianRidge")
    | _of("linear_model._coordinate_descent", "ElasticNet ElasticNetCV Lasso LassoCV MultiTaskElasticNet")
    | _of("linear_model._coordinate_descent", "MultiTaskElasticNetCV MultiTaskLasso MultiTaskLassoCV")
    | _of("linear_model._glm.glm", "GammaRegressor PoissonRegressor TweedieRegressor")
    | _of("linear_model._huber", "HuberRegressor")
    | _of("linear_model._least_angle", "Lars LarsCV LassoLars LassoLarsCV LassoLarsIC")
    | _of("linear_model._omp", "OrthogonalMatchingPursuit OrthogonalMatchingPursuitCV")
    | _of("linear_model._quantile", "QuantileRegressor")
    | _of("linear_model._ridge", "Ridge RidgeCV")
    | _of("linear_model._stochastic_gradient", "SGDRegressor")
    | _of("linear_model._theil_sen", "TheilSenRegressor")
    | _of("neural_network._multilayer_perceptron", "MLPRegressor")
    | _of("neural_network._stochastic_optimizers", "AdamOptimizer SGDOptimizer")
    | TREES
    | _of("ensemble._forest", "ExtraTreesRegressor RandomForestRegressor")
    | _of("ensemble._hist_gradient_boosting.gradient_boosting", "HistGradientBoostingRegressor")
    | {PREDICTOR, BIN_MAPPER, BOOSTING, STACKING, CHAIN, DUMMY}
    | _of("ensemble._bagging", "BaggingRegressor")
    | _of("ensemble._voting", "VotingRegressor")
    | _of("_loss.loss", "AbsoluteError HalfGammaLoss HalfPoissonLoss HalfSquaredError HalfTweedieLoss")
    | _of("_loss.loss", "HalfTweedieLossIdentity HuberLoss PinballLoss")
    | _of("_loss.link", "IdentityLink Interval LogLink")
    | _of("pipeline", "Pipeline")
    | _of("compose._target", "TransformedTargetRegressor")
    | _of("multioutput", "MultiOutputRegressor")
    | _of("model_selection._search", "GridSearchCV")
    | _of("model_selection._split", "GroupKFold KFold ShuffleSplit TimeSeriesSplit")
    | _of("metrics._scorer", "_PassthroughScorer _Scorer")
    | _of("preprocessing._data", "MaxAbsScaler MinMaxScaler RobustScaler StandardScaler")
    | _of("preprocessing._discretization", "KBinsDiscretizer")
    | _of("preprocessing._encoders", "OneHotEncoder OrdinalEncoder")
    | {POLYNOMIAL, FUNCTION, COLUMNS}
    | _of("impute._base", "SimpleImputer")
    | _of("feature_selection._univariate_selection", "SelectKBest")
)

_LOSSES = _of("_loss._loss", "CyAbsoluteError CyHalfGammaLoss CyHalfPoissonLoss CyHalfSquaredError CyHalfTweedieLoss")
_LOSSES |= _of("_loss._loss", "CyHalfTweedieLossIdentity CyHuberLoss CyPinballLoss")

_SCALARS = frozenset(
    f"numpy.{name}"
    for name in (
        *("bool", "bool_", "int8", "int16", "int32", "int64", "longlong", "uint8", "uint16", "uint32", "uint64"),
        *("ulonglong", "float16", "float32", "float64", "str_"),
    )
)
KEYS = _SCALARS | {f"builtins.{name}" for name in ("bool", "float", "int", "str")}
"""Types of keys of a dict, by which skops turns the text in a file into a key, and of numbers in a column."""

FUNCTIONS = (
    _of("feature_selection._univariate_selection", "f_regression r_regression")
    | _of("feature_selection._mutual_info", "mutual_info_regression")
    | _of("metrics._regression", "explained_variance_score max_error mean_absolute_error")
    | _of("metrics._regression", "mean_absolute_percentage_error mean_squared_error mean_squared_log_error")
    | _of("metrics._regression", "median_absolute_error r2_score root_mean_squared_error root_mean_squared_log_error")
)
"""Functions that selections and searches carry along, and that predicting does not call."""

_SPECIAL = frozenset(["erf", "exp10", "expit", "log_expit", "logit", "ndtr", "ndtri"])

_BY_LOADER: dict[str, frozenset[str]] = {
    "BytearrayNode": frozenset(["builtins.bytearray"]),
    "BytesNode": frozenset(["builtins.bytes"]),
    "DTypeNode": frozenset(["numpy.dtype"]),
    "DefaultDictNode": frozenset(["collections.defaultdict"]),
    "DictNode": frozenset(["builtins.dict", "collections.OrderedDict", BUNCH]),
    "JsonNode": frozenset(["builtins.str"]),
    "ListNode": frozenset(["builtins.list"]),
    "LossNode": _LOSSES,
    "MaskedArrayNode": MASKED,
    "NdArrayNode": _SCALARS | {"numpy.ndarray"},
    "ObjectNode": _CLASSES,
    "RandomGeneratorNode": frozenset(["numpy.random._generator.Generator"]),
    "RandomStateNode": frozenset(["numpy.random.mtrand.RandomState"]),
    "SetNode": frozenset(["builtins.set"]),
    "SliceNode": frozenset(["builtins.slice"]),
    "TreeNode": frozenset([TREE]),
    "TupleNode": frozenset(["builtins.tuple"]),
    "TypeNode": KEYS | {"builtins.dict", "builtins.list", "collections.OrderedDict"},
}
"""By the way in which skops makes an object: the types that may be made so."""

_OBJECTS = frozenset[str]().union(*(_BY_LOADER[loader] for loader in _BY_LOADER if loader != "TypeNode")) | KEYS
_OBJECTS |= {"builtins.NoneType"}


def is_reviewed(loader: str, name: str) -> bool:
    """Return whether an object of type ``name`` may be made by ``loader`` without being trusted by name."""
    if loader == "FunctionNode":
        return name in FUNCTIONS or _is_ufunc(name)
    return name in _BY_LOADER.get(loader, ())


def is_reviewed_class(name: str) -> bool:
    """Return whether a class of scikit-learn is among those reviewed."""
    return name in _CLASSES


def is_reviewed_object(name: str) -> bool:
    """Return whether an object that was made may be of the type ``name``."""
    return name in _OBJECTS


def _is_ufunc(name: str) -> bool:
    """Return whether a function is one of numpy's or scipy's of one number, entry by entry."""
    import numpy as np
    from scipy import special

    module, _, own = name.rpartition(".")
    if module in ("scipy.special", "scipy.special._ufuncs"):
        return own in _SPECIAL and hasattr(special, own)
    found = vars(np).get(own) if module == "numpy" else None  # getattr would import numpy's own modules
    return isinstance(found, np.ufunc) and found.nin == found.nout == 1
