"""Return codes of the low-level interface, with upstream's numbers (python-api.md section 2.3)."""

SUCCESS = 0
ERR_PARAM_INVALID = 164000
ERR_ATTR_NOT_EXISTS = 164001
ERR_ATTR_TYPE_MISMATCH = 164002
FAILED = 564000
ERR_TIME_OUT = 564001
STATUS_EXIT = 564004
USER_CODES = range(9_900_000, 10_000_000)
