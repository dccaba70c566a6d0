"""TFD7xx: errors while a spec runs."""
