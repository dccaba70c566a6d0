"""`sweep`: a spec is trained with many settings, several at once on parts of the devices."""
