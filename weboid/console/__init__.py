"""Operator console: HTTP API, accounts, and pages."""
