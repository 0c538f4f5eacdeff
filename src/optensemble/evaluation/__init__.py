"""Evaluation: promises, audits, lemmas beside observations, sample sizes."""
