"""Programs that measure or make what the project ships; none of them is installed."""
