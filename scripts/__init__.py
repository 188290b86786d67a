"""What the Makefile calls: set-up, the demonstration, the benchmarks' table."""
