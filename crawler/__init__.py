"""Crawler: frontier, visit rules, workers, browser and proxy pools, and run status."""
