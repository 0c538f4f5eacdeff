"""Figures and pages, tested."""
