"""What the language takes at a place, and what its words mean."""
