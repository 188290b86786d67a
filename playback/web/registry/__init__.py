"""Link registry for people (pages, forms, reports) and for programs (API)."""
