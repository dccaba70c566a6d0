"""Clusters: a process for each task, where they are, whether they are there, and starting and ending them."""
