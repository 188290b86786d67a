"""Migration steps, one module per schema version."""
