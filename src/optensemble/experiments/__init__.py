"""The paper's experiments: synthetic data, specialised models, and the two constrained problems."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optensemble.experiments.setup import Experiment, make_experiment

__all__ = ["Experiment", "make_experiment"]

if not TYPE_CHECKING:

    def __getattr__(name):
        """Import a name on first use: the settings alone, which the command line shows, load nothing else."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from optensemble.experiments import setup

        return getattr(setup, name)
