"""Models on this device: fetch one, export it for serving with LoRA inputs, find it again by its hash."""
