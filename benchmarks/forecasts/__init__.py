"""How far forecasts of the time of a step are from what is measured: `python -m benchmarks.forecasts`."""
