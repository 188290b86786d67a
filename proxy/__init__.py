"""The WARC-writing proxy and what is said to it."""
