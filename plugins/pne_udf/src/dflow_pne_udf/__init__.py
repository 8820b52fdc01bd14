"""Engine UDF: user functions as nodes."""
