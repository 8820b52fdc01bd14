"""Measurements: each folder is one subject, with its own README for what was measured and what it means."""
