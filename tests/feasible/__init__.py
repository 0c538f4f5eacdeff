"""Tests of the feasible sets and their solvers."""
