"""Browsers and proxies that visits borrow: pools in this process, and the cluster's proxies."""
