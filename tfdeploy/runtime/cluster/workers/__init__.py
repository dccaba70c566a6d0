"""Workers that train together."""
