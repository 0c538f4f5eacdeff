"""Algorithms 1 to 3: events, cells, and the loop that makes predictions unbiased on them."""
