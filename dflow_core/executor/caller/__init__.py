"""The application's side of a running graph: transactions, feeding, fetching, and watching it."""
