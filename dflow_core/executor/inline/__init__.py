"""The whole graph in the caller's thread."""
