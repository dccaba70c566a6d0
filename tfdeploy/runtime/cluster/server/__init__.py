"""The server of one task."""
