"""A refusal of ACL as an exception."""

from __future__ import annotations

from dflow_core.errors import RunError
from dflow_pne_npu.bindings.codes import code_name

_LOST = frozenset({507010, 507033, 507046, 507047, 507053, 507054, 507056, 507899, 107022})
_HINTS = {
    107001: "`dflow npu devices` lists the devices",
    107002: "the call was made on a thread without a context",
    145006: "compile the model again",
    145013: "feed one of the shapes the model was compiled for",
    207001: "load fewer models on the device, or use smaller batches",
    245000: "load fewer models on the device, or use smaller batches",
    545001: "compile the source model for this chip",
    507010: "the device does not answer; `npu-smi info` shows its state",
}


class AclError(RunError):
    """A call of ACL that gave another code than 0.

    Args:
        code: The code.
        call: Name of the function.
        text: What the library said about it; "" if nothing.
        device: Device it was made for, or None.
        stream: Name of the stream, or "".
    """

    def __init__(self, code: int, call: str, text: str = "", device: int | None = None, stream: str = "") -> None:
        self.code = code
        self.name = code_name(code)
        self.call = call
        self.text = text
        self.device = device
        self.stream = stream
        where = [] if device is None else [f"npu:{device}"]
        where += [f"stream {stream!r}"] if stream else []
        place = f" on {', '.join(where)}" if where else ""
        message = f"{call} gave {code} ({self.name}){place}" + (f": {_first(text)}" if text else "")
        super().__init__(message, hint=_HINTS.get(code))

    @property
    def is_fatal(self) -> bool:
        """Whether the device can run nothing more until it is reset."""
        return self.code in _LOST


def _first(text: str) -> str:
    """The sentence of an error text, without process number and date."""
    line = text.strip().splitlines()[0]
    _, found, rest = line.partition("): ")
    return (rest if found else line).strip()
