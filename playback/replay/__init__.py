"""Replay: pywb's classes in one WSGI process, in an environment of its own."""
