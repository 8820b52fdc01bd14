"""Functions that take messages from queues themselves."""
