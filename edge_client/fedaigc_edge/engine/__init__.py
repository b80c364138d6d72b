"""Continuous batching: many answers decoded together on one model, each as if it were alone."""
