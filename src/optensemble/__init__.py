"""One policy from several models or policies under constraints, with a payoff forecast made consistent."""

from optensemble import exceptions, feasible, guarantees
from optensemble.ensembles.base import Answer
from optensemble.ensembles.black_box import BlackBoxEnsemble
from optensemble.ensembles.decision import DecisionEnsemble
from optensemble.ensembles.white_box import WhiteBoxEnsemble
from optensemble.evaluation.audit import Audit
from optensemble.evaluation.planning import RowPlan, plan
from optensemble.evaluation.promise import Promise
from optensemble.explanation.explanation import Explanation
from optensemble.members.columns import Columns
from optensemble.multicalibration.state import Situation
from optensemble.persistence.files import load

__all__ = [
    "Answer",
    "Audit",
    "BlackBoxEnsemble",
    "Columns",
    "DecisionEnsemble",
    "Explanation",
    "Promise",
    "RowPlan",
    "Situation",
    "WhiteBoxEnsemble",
    "exceptions",
    "feasible",
    "guarantees",
    "load",
    "plan",
]

__version__ = "0.1.0"
