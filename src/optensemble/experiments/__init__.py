"""The paper's experiments: synthetic data, specialised models, and the two constrained problems."""

from optensemble.experiments.setup import Experiment, make_experiment

__all__ = ["Experiment", "make_experiment"]
