"""The wording of every diagnostic: one factory function per code, grouped by range."""
