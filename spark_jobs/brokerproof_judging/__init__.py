"""Judges a run's tables with Spark: what happened to every message, which rules broke, how long recovery took."""
