"""Tests of the reproduction of the paper's experiments."""
