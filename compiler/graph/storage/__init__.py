"""Weights in files: checkpoints, files that Keras has written, and the exported Keras model."""
