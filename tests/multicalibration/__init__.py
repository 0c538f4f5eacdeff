"""Tests of events and of Algorithms 1 to 3."""
