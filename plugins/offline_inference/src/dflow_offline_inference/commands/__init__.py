"""One command of `dflow` a file."""
