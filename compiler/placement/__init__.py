"""The rules that place things on devices, and the place of each variable."""
