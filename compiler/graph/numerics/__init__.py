"""What is done to a summed gradient before it is applied, and to weights and statistics beside it."""
