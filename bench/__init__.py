"""Measurements of the product, `make bench-...`: each prints a table, then one JSON object as its last line.

Nothing here is part of the wheel. What a benchmark needs besides `.venv` it builds once into `.bench/`.
"""
