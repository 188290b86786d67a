"""Values and rules that need no I/O; everyone may import them, they import nothing of ours."""
