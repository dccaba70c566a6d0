"""Measures how strong the tests are: puts small faults into the code, and counts those that they see."""
