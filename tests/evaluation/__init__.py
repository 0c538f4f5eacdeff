"""Tests of promises, audits and planning."""
