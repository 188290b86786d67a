"""Parts that commands share: groups, options, targets, output, child processes."""
