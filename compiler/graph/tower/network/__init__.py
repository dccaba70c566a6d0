"""The Keras layers, losses and metrics of which a tower is made."""
