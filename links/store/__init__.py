"""The registry's database: its tables, and the way to them."""
