"""Imports its driver at once, which a plugin should not do: here it is missing, and all ends with that."""

raise ImportError("libacme_driver.so.2: cannot open shared object file: No such file or directory")
