"""One look at one URL over the network: names, addresses, TLS, HTTP, and what the answer says."""
