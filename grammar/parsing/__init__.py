"""From tokens to the structure of `dsl.syntax`, with recovery from errors."""
