"""Captures index: schema, writers and readers for SQLite, PostgreSQL and OutbackCDX."""
