"""The map of many clones by kinds, made from the maps of a few."""
