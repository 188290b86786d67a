"""POST /links/api/cached: archived copies for all links of one page (docs/embedding.md)."""
