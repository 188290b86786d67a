"""Cached copies beside the links of any HTML page."""
