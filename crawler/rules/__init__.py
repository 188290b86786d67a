"""Visit rules of a crawl: budgets, scope, sitemaps, host delays, recrawl dates."""
