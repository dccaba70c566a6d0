"""The variables of a graph."""
