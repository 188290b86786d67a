"""Alembic migrations of the link registry."""
