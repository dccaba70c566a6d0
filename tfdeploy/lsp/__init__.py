"""The language server: what an editor asks of a spec that is being written (LSP 3.17)."""
