"""Webhooks: events of a collection, queued in SQLite and sent as Standard Webhooks."""
