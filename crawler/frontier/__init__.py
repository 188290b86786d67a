"""Frontier: the queue of URLs to visit."""
