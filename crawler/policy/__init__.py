"""Exclusion policy: entries, blocklists, robots.txt and noarchive, each decision with its reason."""
