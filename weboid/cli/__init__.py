"""The command line; `main` prints the errors of `core.errors` that functions raise and ends with their code."""
