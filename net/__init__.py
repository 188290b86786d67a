"""Network layer: address policy, connections, TLS, HTTP and Redis servers, processes."""
