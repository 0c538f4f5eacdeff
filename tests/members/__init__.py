"""Tests of models and policies: their outputs, columns and subgroups."""
