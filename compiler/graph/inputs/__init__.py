"""Where examples enter the graph and how they reach the towers."""
