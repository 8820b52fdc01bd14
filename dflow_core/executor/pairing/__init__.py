"""Which messages belong together: joins, with and without limits, and gathering."""
