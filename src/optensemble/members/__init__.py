"""Models and policies: what they say of some rows, checked, in one sense."""
