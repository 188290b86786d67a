"""Sanitizer: archived HTML, CSS, SVG, pictures and PDFs made safe; runs in maker processes."""
