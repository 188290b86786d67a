"""Programs of the Makefile: set-up, the demonstration, the benchmarks' table."""
