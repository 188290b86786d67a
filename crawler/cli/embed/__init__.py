"""The commands of `weboid embed`."""
