"""Comparison of a capture with its copy: pictures, texts, parts. Pure, on Pillow and NumPy."""
