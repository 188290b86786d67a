"""Replay: one WSGI process that answers for archived pages and their parts."""
