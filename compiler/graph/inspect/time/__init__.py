"""The work of a step, from which its time is forecast."""
