"""One browser, one visit: from navigation to artifacts."""
