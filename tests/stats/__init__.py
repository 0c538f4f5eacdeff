"""Tests of folds, sampling and intervals."""
