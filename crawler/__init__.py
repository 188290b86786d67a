"""The crawler: frontier, worker, supervisor and the command line."""
