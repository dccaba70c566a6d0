"""What is done to gradients between the towers and the optimizer."""
