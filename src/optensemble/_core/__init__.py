"""Ground floor: arrays, exact sums, compiled kernels, threads, files; it knows nothing of the rooms above."""
