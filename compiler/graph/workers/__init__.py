"""Workers that have a graph of their own: the state that they share, and the exchange of their gradients."""
