"""The public TLS port: a closed list of routes, and nothing of Flower but what a SuperNode needs."""
