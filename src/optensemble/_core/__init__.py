"""The ground floor: arrays, exact sums, compiled kernels, threads, files, validation; it imports no other room."""
