"""The pass over all URLs that are due: from the registry to the network, and back."""
