"""Tests of pages opened in a real browser."""
