"""The link registry: which URLs are cited where, what state each is in, its history."""
