"""The differences between two placement maps."""
