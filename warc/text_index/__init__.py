"""Full-text index of captured pages: analysis of texts, the index, and its indexer."""
