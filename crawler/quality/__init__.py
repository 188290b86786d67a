"""Checks of captures: whether a reader is shown what the visitor saw, and what became of pages."""
