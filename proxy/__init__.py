"""WARC-writing proxy and its control protocol."""
