"""User reports, replacement proposals, page requests and operator marks."""
