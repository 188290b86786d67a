"""POST /links/api/cached: archived copies for all links of one page (docs/how-to/embedding.md)."""
