"""Expressions of a spec as values of the types that the schema asks for."""
