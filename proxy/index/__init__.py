"""The captures index: what was captured, and in which WARC it lies."""
