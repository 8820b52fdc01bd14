"""The `dflow` command: one file a command under `commands/`, click and rich kept inside this folder.

Modules, lowest first: output (what is printed, and how), services (what commands use of the rest), target (graphs by
name), command (what every command has in common), extensions (commands of plugins), commands/*, app (the list of
commands), main (the entry point).
"""
