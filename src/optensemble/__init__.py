"""One policy from several models or policies under constraints, with a payoff forecast made consistent."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optensemble import exceptions, feasible, guarantees
    from optensemble._core.columns import Columns
    from optensemble.ensembles._live_answer import LiveAnswer
    from optensemble.ensembles.base import Answer
    from optensemble.ensembles.black_box import BlackBoxEnsemble
    from optensemble.ensembles.decision import DecisionEnsemble
    from optensemble.ensembles.live import LiveEnsemble
    from optensemble.ensembles.pipeline import make_pipeline
    from optensemble.ensembles.white_box import WhiteBoxEnsemble
    from optensemble.evaluation.audit import Audit
    from optensemble.evaluation.planning import RowPlan, plan
    from optensemble.evaluation.promise import Promise
    from optensemble.evaluation.verdict import Grade, Verdict
    from optensemble.explanation.explanation import Explanation
    from optensemble.monitoring.monitor import Monitor
    from optensemble.multicalibration.state import Situation
    from optensemble.persistence.files import load
    from optensemble.tables.rows import Rows

__all__ = [
    "Answer",
    "Audit",
    "BlackBoxEnsemble",
    "Columns",
    "DecisionEnsemble",
    "Explanation",
    "Grade",
    "LiveAnswer",
    "LiveEnsemble",
    "Monitor",
    "Promise",
    "RowPlan",
    "Rows",
    "Situation",
    "Verdict",
    "WhiteBoxEnsemble",
    "exceptions",
    "feasible",
    "guarantees",
    "load",
    "make_pipeline",
    "plan",
]

__version__ = "0.1.0"

if not TYPE_CHECKING:
    _MODULES = {
        "Answer": "ensembles.base",
        "Audit": "evaluation.audit",
        "BlackBoxEnsemble": "ensembles.black_box",
        "Columns": "_core.columns",
        "DecisionEnsemble": "ensembles.decision",
        "Explanation": "explanation.explanation",
        "Grade": "evaluation.verdict",
        "LiveAnswer": "ensembles._live_answer",
        "LiveEnsemble": "ensembles.live",
        "Monitor": "monitoring.monitor",
        "Promise": "evaluation.promise",
        "RowPlan": "evaluation.planning",
        "Rows": "tables.rows",
        "Situation": "multicalibration.state",
        "Verdict": "evaluation.verdict",
        "WhiteBoxEnsemble": "ensembles.white_box",
        "load": "persistence.files",
        "make_pipeline": "ensembles.pipeline",
        "plan": "evaluation.planning",
    }

    def __getattr__(name):
        """Import a public name on first use: scikit-learn, pandas and numba take seconds to load."""
        from importlib import import_module

        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        if name not in _MODULES:
            return import_module(f"{__name__}.{name}")  # a submodule; importing it sets the attribute
        found = globals()[name] = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        return found

    def __dir__():
        return sorted({*globals(), *__all__})
