"""WARC files: records built, written, read, checked, recovered and erased."""
