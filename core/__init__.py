"""Values and rules without I/O; imported by all packages, importing none of them."""
