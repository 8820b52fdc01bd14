"""Test kits for the authors of plugins, and stand-ins that implement the public contracts."""
