"""Clusters: the server of each task, the health of the tasks, and the workers that train on them."""
