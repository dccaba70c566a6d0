"""How much memory a step needs, and whether a process can hold the variables."""
