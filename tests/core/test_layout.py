"""Paths of a collection, and valid names in it."""
