"""Import of wiki pages into the link registry, and of due links into the archive queue."""
