"""TFD2xx, TFD3xx, TFD4xx and TFD6xx: errors and lints in names, types, references and placement."""
