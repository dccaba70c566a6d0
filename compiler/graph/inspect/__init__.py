"""What is read from a compiled graph with TensorFlow: its map with what ran, its memory and its devices."""
