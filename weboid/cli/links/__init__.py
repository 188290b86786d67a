"""Commands of `weboid links`: the link registry."""
