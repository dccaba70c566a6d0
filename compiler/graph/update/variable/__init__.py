"""The update of one variable by its summed gradient, which is the same in all modes."""
