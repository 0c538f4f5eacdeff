"""Tests of stacks, patches, candidate policies and the leaderboard."""
