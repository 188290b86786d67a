"""Command line: commands translate options and print results; the packages do the work."""
