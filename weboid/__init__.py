"""Weboid: archiving of the pages that a wiki cites, and safe playback of the copies."""
