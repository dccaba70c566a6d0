"""A graph again, with shapes that TensorFlow knows of assumed sizes only, or does not follow into loops."""
