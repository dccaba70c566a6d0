"""Whether the tasks of a cluster are there."""
