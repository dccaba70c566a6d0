"""Maps and forecasts that need other graphs than that of the plan: with fewer clones, or assumed sizes."""
