"""Link registry for readers (pages, forms, reports) and for programs (API)."""
