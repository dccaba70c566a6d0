"""The template written into the graph once for each clone."""
