"""TFD5xx: errors in the plan that is made of a spec and its devices."""
