"""Names with places for the numbers of tasks and clones: of ops, of devices and of tensors."""
