"""Statistics: dependence between rows, folds, intervals, paired tests, sample sizes; numbers in, numbers out."""
