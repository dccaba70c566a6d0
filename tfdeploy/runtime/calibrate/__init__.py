"""Calibration: measures what the ops of a spec cost on this machine, in processes of its own."""
