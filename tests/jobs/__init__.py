"""Tests of jobs: tables in, decisions out."""
