"""From text to tokens with balanced brackets, before the parser."""
