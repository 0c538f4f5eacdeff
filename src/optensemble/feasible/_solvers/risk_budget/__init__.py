"""Solvers of portfolios under a limit of variance."""
