"""A simulation of one step on threads, cores and links: when each op runs, and what it waits for."""
