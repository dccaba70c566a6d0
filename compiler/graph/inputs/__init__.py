"""How examples enter the graph and reach the towers."""
