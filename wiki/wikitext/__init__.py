"""Wikitext parsing, citation reading and citation repair."""
