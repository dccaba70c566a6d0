"""Devices, the rules that place things on them, and where each variable goes."""
