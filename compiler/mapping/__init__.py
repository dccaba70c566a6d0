"""The placement map: its records, its file, and explanations of places."""
