"""Workers that have a graph of their own: what they agree on, and how their gradients meet."""
