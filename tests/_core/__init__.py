"""Tests of the ground floor: sums, files, suggestions."""
