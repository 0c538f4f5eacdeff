"""From members' outputs to one policy: stack, ridge, patch, calibrated choice, leaderboard."""
