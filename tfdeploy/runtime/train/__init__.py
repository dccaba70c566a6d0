"""A training run from beginning to end."""
