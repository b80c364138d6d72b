"""Rounds: planned, run, admitted, aggregated, watched."""
