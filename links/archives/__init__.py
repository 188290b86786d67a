"""Archives elsewhere: what their addresses mean, what copies they have, and which of these is chosen."""
