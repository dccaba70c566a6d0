"""The model of a spec as a flat graph of layer calls."""
