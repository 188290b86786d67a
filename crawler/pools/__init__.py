"""Pools of browsers and proxies for visits: local ones, and the cluster's proxies."""
