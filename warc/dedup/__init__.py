"""Dedup index: record of each payload, and the process that is about to write it."""
