"""Link registry: database, schema, repositories and queries."""
