"""FedAIGC's shared core: values and mathematics, used by devices, server and officer alike."""

__version__ = "0.1.0"
