"""The devices of ops: those that they are given, checked, and those on which they really run."""
