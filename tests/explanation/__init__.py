"""Tests of explanations of single rows."""
