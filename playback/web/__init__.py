"""Reader pages and public APIs of a collection."""
