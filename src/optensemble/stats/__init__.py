"""Dependence between rows, folds, intervals and tests: numbers in, numbers out."""
