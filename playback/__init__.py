"""Playback: replay (pywb, in its own environment) and front (reader pages)."""
