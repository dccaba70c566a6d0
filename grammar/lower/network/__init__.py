"""The `model` and `layer` blocks: bindings and flows of tensors."""
