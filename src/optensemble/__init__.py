"""One policy from several models or policies under constraints, with a payoff forecast made consistent."""

from optensemble import exceptions, feasible, guarantees
from optensemble.blackbox import BlackBoxEnsemble
from optensemble.persistence import load
from optensemble.whitebox import WhiteBoxEnsemble

__all__ = ["BlackBoxEnsemble", "WhiteBoxEnsemble", "exceptions", "feasible", "guarantees", "load"]

__version__ = "0.1.0"
