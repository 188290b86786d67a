"""Use cases behind the commands; the only layer that combines sibling packages."""
