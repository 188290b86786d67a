"""Status of a collection and its frontier, also as JSON and Prometheus metrics over HTTP."""
