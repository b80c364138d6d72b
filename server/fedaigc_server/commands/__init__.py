"""The commands of `fedaigc-server`, one file a noun."""
