"""Use cases that combine the packages; their errors are those of `weboid.cli`."""
