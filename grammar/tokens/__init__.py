"""The stage before the parser: text to tokens with balanced brackets."""
