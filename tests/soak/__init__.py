"""Long runs: thousands of swaps and requests, after which nothing may be mixed, lost or still held."""
