"""Tests of saved ensembles."""
