"""The time of a step: what its ops cost, and a simulation of how devices, threads and links work on them."""
