"""A deployment as a grid of clones: which specs are one, and what is of one clone repeated for all."""
