"""Specs to begin with, which `tfdeploy init` writes: one that explains the language, and those of the zoo."""
