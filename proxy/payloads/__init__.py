"""The dedup index: which record holds a payload, and who is about to write it."""
