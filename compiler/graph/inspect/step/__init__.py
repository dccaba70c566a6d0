"""The ops that a training step runs, the shapes of their outputs, and what they send between devices."""
