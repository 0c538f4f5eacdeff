"""The best action where acting has a known cost: ways to solve it, and which of them a set takes."""
