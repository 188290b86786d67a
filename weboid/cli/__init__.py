"""The command line.

Functions raise `InputError` or `ConfigError` for what a user gave wrongly, and `UnavailableError` or
`TransientError` for what is missing or does not answer; `main` prints them and ends with their code.
"""
