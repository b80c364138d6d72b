"""The device: it serves a model behind a gate, proves what it made, and learns in private."""
