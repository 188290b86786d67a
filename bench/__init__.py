"""Benchmarks that anyone can run; each prints its figures beside the baseline of the same run."""
