"""One command a file, each with its function and `COMMAND`."""
