"""Tests of the three estimators."""
