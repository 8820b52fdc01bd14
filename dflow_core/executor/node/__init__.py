"""One node and its calls, without queues, processes or threads."""
