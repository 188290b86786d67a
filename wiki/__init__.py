"""Wikis: watch pages, embed cached links, edit as a bot."""
