"""The frontier: the queue of URLs to visit."""
