"""Explanations of single decisions."""
