"""Executor processes: how they are started, spoken to and ended, and what they print."""
