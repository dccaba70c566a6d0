"""TFD1xx: errors in the files, characters, brackets and tokens of a spec."""
