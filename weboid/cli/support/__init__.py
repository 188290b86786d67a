"""Shared code of commands: groups, options, targets, output, child processes."""
