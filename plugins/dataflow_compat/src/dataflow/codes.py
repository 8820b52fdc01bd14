"""Numbers that calls return and exceptions carry."""

from __future__ import annotations

from typing import Final

SUCCESS: Final = 0
PARAM_INVALID: Final = 145000
NOT_INIT: Final = 145001
SHAPE_INVALID: Final = 145021
DATATYPE_INVALID: Final = 145022
SUBHEALTHY: Final = 345102
USER_RAISE_EXCEPTION: Final = 345103
DATA_NOT_ALIGNED: Final = 345104
INNER_ERROR: Final = 545000
MODEL_EXECUTE_TIMEOUT: Final = 545601
REDEPLOYING: Final = 545602
QUEUE_EMPTY: Final = 207013
QUEUE_FULL: Final = 207014
FAILED: Final = 0xFFFFFFFF

FUNC_SUCCESS: Final = 0
FUNC_ERR_PARAM_INVALID: Final = 164000
FUNC_ERR_ATTR_NOT_EXITS: Final = 164001
FUNC_ERR_ATTR_TYPE_MISMATCH: Final = 164002
FUNC_FAILED: Final = 564000
FUNC_ERR_TIME_OUT_ERROR: Final = 564001
FUNC_STATUS_REDEPLOYING: Final = 564003
FUNC_STATUS_EXIT: Final = 564004

LARGEST: Final = 9_999_999
"""Whatever is above is reported as FAILED."""


def visible(code: int) -> int:
    """A code as callers see it."""
    return code if 0 <= code <= LARGEST else FAILED
