"""Types of which stored estimators may consist without being trusted by name.

skops trusts every estimator of scikit-learn. That is not enough here: what a file says must not reach compiled code
unchecked, and some estimators hand their arrays to compiled code as they are (support vectors, neighbours, clusters).
Listed below are types that were reviewed: whatever their attributes are, loading one and asking it for predictions
stays in Python and numpy, which check shapes and bounds, or ends in compiled code whose input
:mod:`~optensemble.persistence.estimator_checks` has checked. None of them calls what a file names, because functions
are only those listed here. All else is asked for.
"""

from __future__ import annotations

TREE = "sklearn.tree._tree.Tree"
PREDICTOR = "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor"
BOOSTING = "sklearn.ensemble._gb.GradientBoostingRegressor"
ENCODER = "sklearn.preprocessing._encoders.OneHotEncoder"
STACKING = "sklearn.ensemble._stacking.StackingRegressor"

LOADERS_OF_CHECKED = {TREE: "TreeNode", PREDICTOR: "ObjectNode"}
"""Types of which skops makes objects in one way alone in files of ours; any other way would go around the check."""

_SCALARS = frozenset(
    f"numpy.{name}"
    for name in (
        *("bool", "bool_", "int8", "int16", "int32", "int64", "longlong", "uint8", "uint16", "uint32", "uint64"),
        *("ulonglong", "float16", "float32", "float64", "str_"),
    )
)
_PLAIN = frozenset(f"builtins.{name}" for name in ("bool", "float", "int", "str", "dict", "list", "set", "tuple"))
_FUNCTIONS = frozenset(
    [
        *(f"sklearn.feature_selection._univariate_selection.{name}" for name in ("f_regression", "r_regression")),
        "sklearn.feature_selection._mutual_info.mutual_info_regression",
        *(
            f"sklearn.metrics._regression.{name}"
            for name in (
                *("explained_variance_score", "max_error", "mean_absolute_error", "mean_absolute_percentage_error"),
                *("mean_squared_error", "mean_squared_log_error", "median_absolute_error", "r2_score"),
                *("root_mean_squared_error", "root_mean_squared_log_error"),
            )
        ),
    ]
)
"""Functions that selections and searches carry along, and that predicting does not call."""

_BY_LOADER: dict[str, frozenset[str]] = {
    "BytearrayNode": frozenset(["builtins.bytearray"]),
    "BytesNode": frozenset(["builtins.bytes"]),
    "DTypeNode": frozenset(["numpy.dtype"]),
    "DefaultDictNode": frozenset(["collections.defaultdict"]),
    "DictNode": frozenset(["builtins.dict", "collections.OrderedDict", "sklearn.utils._bunch.Bunch"]),
    "JsonNode": frozenset(["builtins.str"]),
    "ListNode": frozenset(["builtins.list"]),
    "MaskedArrayNode": frozenset(["numpy.ma.MaskedArray", "numpy.ma.core.MaskedArray"]),
    "NdArrayNode": _SCALARS | {"numpy.ndarray"},
    "RandomGeneratorNode": frozenset(["numpy.random._generator.Generator"]),
    "RandomStateNode": frozenset(["numpy.random.mtrand.RandomState"]),
    "SetNode": frozenset(["builtins.set"]),
    "SliceNode": frozenset(["builtins.slice"]),
    "TreeNode": frozenset([TREE]),
    "TupleNode": frozenset(["builtins.tuple"]),
    "TypeNode": _SCALARS | _PLAIN | {"collections.OrderedDict"},
}
"""By the way in which skops makes an object: the types that may be made so."""

_ALL: tuple[str, ...] = ()
_LOSSES = "AbsoluteError ExponentialLoss HalfGammaLoss HalfPoissonLoss HalfSquaredError HuberLoss PinballLoss"
_REVIEWED: dict[str, tuple[str, ...]] = {
    "sklearn.linear_model.": _ALL,  # a product of matrices, by numpy
    "sklearn.dummy.": ("DummyRegressor",),
    "sklearn.tree._classes.": ("DecisionTreeRegressor", "ExtraTreeRegressor"),
    "sklearn.ensemble._forest.": ("ExtraTreesRegressor", "RandomForestRegressor"),
    "sklearn.ensemble._gb.": ("GradientBoostingRegressor",),
    "sklearn.ensemble._hist_gradient_boosting.": ("HistGradientBoostingRegressor", "TreePredictor", "_BinMapper"),
    "sklearn.ensemble._bagging.": ("BaggingRegressor",),
    "sklearn.ensemble._weight_boosting.": ("AdaBoostRegressor",),
    "sklearn.ensemble._voting.": ("VotingRegressor",),
    "sklearn.ensemble._stacking.": ("StackingRegressor",),
    "sklearn._loss.loss.": tuple(_LOSSES.split()),
    "sklearn._loss.link.": ("IdentityLink", "Interval", "LogLink"),
    "sklearn.pipeline.": ("FeatureUnion", "Pipeline"),
    "sklearn.compose._": ("ColumnTransformer", "TransformedTargetRegressor"),
    "sklearn.multioutput.": ("MultiOutputRegressor", "RegressorChain"),
    "sklearn.frozen.": ("FrozenEstimator",),
    "sklearn.model_selection._search.": ("GridSearchCV", "RandomizedSearchCV"),
    "sklearn.model_selection._split.": ("GroupKFold", "KFold", "ShuffleSplit", "TimeSeriesSplit"),
    "sklearn.metrics._scorer.": ("_PassthroughScorer", "_Scorer"),
    "sklearn.preprocessing._data.": (
        *("Binarizer", "MaxAbsScaler", "MinMaxScaler", "Normalizer", "PowerTransformer", "QuantileTransformer"),
        *("RobustScaler", "StandardScaler"),
    ),
    "sklearn.preprocessing._polynomial.": ("PolynomialFeatures",),
    "sklearn.preprocessing._discretization.": ("KBinsDiscretizer",),
    "sklearn.preprocessing._encoders.": ("OneHotEncoder", "OrdinalEncoder"),
    "sklearn.preprocessing._function_transformer.": ("FunctionTransformer",),
    "sklearn.impute._base.": ("SimpleImputer",),
    "sklearn.feature_selection.": ("RFE", "SelectFromModel", "SelectKBest", "SelectPercentile", "VarianceThreshold"),
    "sklearn.decomposition._": ("PCA", "TruncatedSVD"),
    "sklearn.cross_decomposition.": ("PLSCanonical", "PLSRegression"),
    "sklearn.neural_network._": ("AdamOptimizer", "MLPRegressor", "SGDOptimizer"),
    "sklearn.kernel_ridge.": ("KernelRidge",),
    "sklearn.svm._classes.": ("LinearSVR",),  # the others hand their vectors to libsvm
}
"""By the beginning of the module's name: the classes that were reviewed; none listed for all of them."""


def is_reviewed(loader: str, name: str) -> bool:
    """Return whether an object of type ``name`` may be made by ``loader`` without being trusted by name."""
    if loader == "ObjectNode":
        return is_reviewed_class(name)
    if loader == "LossNode":
        return name.startswith("sklearn._loss._loss.Cy")
    if loader == "FunctionNode":
        return name in _FUNCTIONS or _is_ufunc(name)
    return name in _BY_LOADER.get(loader, ())


def is_reviewed_class(name: str) -> bool:
    """Return whether a class of scikit-learn is among those reviewed."""
    own = name.rpartition(".")[2]
    return any(name.startswith(start) and (not known or own in known) for start, known in _REVIEWED.items())


def _is_ufunc(name: str) -> bool:
    """Return whether a function is one of numpy's or scipy's functions of numbers, entry by entry."""
    import numpy as np
    from scipy import special

    module, _, own = name.rpartition(".")
    home = np if module == "numpy" else special if module in ("scipy.special", "scipy.special._ufuncs") else None
    return isinstance(getattr(home, own, None), np.ufunc)
