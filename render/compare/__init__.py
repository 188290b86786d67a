"""Holds a copy against what was captured: pictures, texts, parts, and what to think of them."""
