"""Weights in files: checkpoints, files of Keras, and a model of its own."""
