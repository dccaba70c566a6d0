"""Checks of a spec against its devices, one rule per file."""
