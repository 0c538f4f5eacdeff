"""The paper's experiments with ever more debiasing rows, to see from how many on its promises hold."""
