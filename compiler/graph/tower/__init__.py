"""One tower of the model, traced once as a template."""
