"""Placements of a spec that might be better: what is tried, what is measured, and what is said about it."""
