"""One policy from several models or policies under constraints, with a payoff forecast made consistent."""

from optensemble import exceptions, feasible, guarantees
from optensemble._promise import Promise
from optensemble.audit import Audit
from optensemble.blackbox import BlackBoxEnsemble
from optensemble.columns import Columns
from optensemble.decision import DecisionEnsemble
from optensemble.explaining import Explanation
from optensemble.persistence import load
from optensemble.planning import plan
from optensemble.whitebox import WhiteBoxEnsemble

__all__ = [
    "Audit",
    "BlackBoxEnsemble",
    "Columns",
    "DecisionEnsemble",
    "Explanation",
    "Promise",
    "WhiteBoxEnsemble",
    "exceptions",
    "feasible",
    "guarantees",
    "load",
    "plan",
]

__version__ = "0.1.0"
