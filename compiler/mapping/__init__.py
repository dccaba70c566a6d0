"""The placement map: its records, its file, and questions that are answered from it."""
