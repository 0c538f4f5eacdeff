"""Portfolios under a limit of variance."""
