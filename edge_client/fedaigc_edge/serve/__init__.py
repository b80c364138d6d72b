"""From a caller's request to a sealed answer: gate, budget, generation, seal, and the local HTTP face."""
