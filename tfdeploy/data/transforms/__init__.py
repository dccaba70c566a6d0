"""Transforms of examples."""
