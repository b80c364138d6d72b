"""The commands of `fedaigc-edge`, one file a command."""
