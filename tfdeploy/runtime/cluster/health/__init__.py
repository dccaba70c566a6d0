"""The health of a cluster: which of its tasks are running."""
