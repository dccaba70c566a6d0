"""Two placement maps compared."""
