"""What is read from a step: its ops and transfers, the placement map, reasons, and the work for forecasts."""
