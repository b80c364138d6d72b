"""Programs that people use already, unmodified, against a device."""
