"""An engine for a device that nobody has."""
