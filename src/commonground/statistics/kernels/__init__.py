"""Compiled sums over a block of people: numba on the processor, CUDA on a GPU."""
