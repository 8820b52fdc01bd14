"""Keeps the processes of a graph running: their lives, their losses, and what is owed for those."""
