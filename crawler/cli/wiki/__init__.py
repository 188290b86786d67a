"""Commands that meet wikis."""
