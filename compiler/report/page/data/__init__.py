"""The data that the scripts of the page read."""
