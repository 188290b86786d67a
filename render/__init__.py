"""Visit of one page in one browser: from navigation to artifacts."""
