"""Dedup index: which record holds a payload, and which process is about to write it."""
