"""Schema steps of the link registry: one SQL file for each step and database, applied in their order."""
