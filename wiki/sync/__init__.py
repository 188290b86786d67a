"""Sync of wikis into the link registry, and of due links to the archive."""
