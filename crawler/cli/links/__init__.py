"""`weboid links`: a module a command."""
