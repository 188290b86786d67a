"""The front: the pages a reader sees around a capture."""
