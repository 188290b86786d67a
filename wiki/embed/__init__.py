"""Marks of archived copies beside the links of any HTML page."""
