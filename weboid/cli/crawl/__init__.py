"""Commands that archive, crawl, and inspect or steer a crawl."""
