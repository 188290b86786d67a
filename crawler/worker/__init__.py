"""Worker pool: claims items, runs page tasks, holds back when resources are short."""
