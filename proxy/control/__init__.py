"""Control socket between workers and recorder: frames, handshake, server and client."""
