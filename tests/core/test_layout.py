"""Where things lie, and what may name them."""
