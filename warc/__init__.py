"""WARC files: building, writing, reading, verification, recovery and erasure of records."""
