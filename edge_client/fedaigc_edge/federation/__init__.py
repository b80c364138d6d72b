"""How the device speaks to the datacenter: its own signed calls, and Flower's messages."""
