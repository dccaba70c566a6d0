"""The placement map as one self-contained page."""
