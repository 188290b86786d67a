"""Use cases behind the commands; they alone combine sibling packages."""
