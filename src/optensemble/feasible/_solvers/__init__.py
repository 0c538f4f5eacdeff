"""The solvers below the feasible sets."""
