"""The placement map of a compiled graph, and why each op and variable is on its device."""
