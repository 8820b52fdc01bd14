"""The commands `dflow udf ...`."""
