"""What a spec means: sources and spans, diagnostics, the IR and the checks that need no graph."""
