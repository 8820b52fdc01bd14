"""Part of the interface that scripts import by module path."""
