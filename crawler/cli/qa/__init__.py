"""`weboid qa`: a module a command."""
