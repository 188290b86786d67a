"""What changed on a wiki, into the registry and on to the archive."""
