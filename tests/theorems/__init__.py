"""Tests of the paper's lemmas and of the statistical guarantees."""
