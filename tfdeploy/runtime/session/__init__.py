"""A compiled graph in a session, and how steps are made in it."""
