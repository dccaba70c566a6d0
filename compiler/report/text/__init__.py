"""Views of a placement map for a terminal."""
