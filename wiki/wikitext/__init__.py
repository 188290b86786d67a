"""Wikitext as citations."""
