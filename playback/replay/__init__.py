"""Replay server: WSGI application that serves archived pages and their parts."""
