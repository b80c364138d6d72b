"""The seam to Flower: its processes, its Control API, and the app that it runs for a round."""
