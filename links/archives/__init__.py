"""Copies in other web archives: recognition, search, checks, storage."""
