"""Private learning on the device: feedback, the privacy account, one local round in its own process."""
