"""Templates of workspaces."""
