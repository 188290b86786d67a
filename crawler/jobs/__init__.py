"""Crawl jobs: seeds, scope, URL lists, and the settings in force for a URL."""
