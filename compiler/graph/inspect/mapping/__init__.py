"""The placement map of a compiled graph, with what a session has found."""
