"""Tests, in the rooms of the package; what concerns several rooms lies here and in ``theorems``."""
