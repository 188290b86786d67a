"""Web pages and JSON API of playback checks, for readers and reviewers."""
