"""The reproduction of the paper's experiments, tested."""
