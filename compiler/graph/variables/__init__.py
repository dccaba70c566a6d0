"""Variables of the graph: made, saved, loaded and exported."""
