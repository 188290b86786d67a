"""Weboid: the program that archives the pages a wiki cites and plays them back."""
