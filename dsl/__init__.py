"""The meaning of a spec: its text, diagnostics, intermediate representation (IR) and device-free checks."""
