"""From what members say to one policy: stack, ridge, patch, calibrated choice, leaderboard."""
