"""Scanning what was archived for malware: beside capture and playback, never in their way (C-16)."""
