"""Worker pool: claims items, runs page tasks, waits when resources are short."""
