"""What can be read from a compiled graph: its placement map, transfers, memory and devices."""
