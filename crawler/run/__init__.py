"""Runs from start to summary: URL lists, crawl jobs and long-running workers."""
