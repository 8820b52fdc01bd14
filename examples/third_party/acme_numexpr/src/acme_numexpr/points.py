"""A process point that is an arithmetic expression."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import ClassVar

from dflow_core.errors import UsageError
from dflow_core.graph import ProcessPoint

DTYPES = ("float32", "float64", "int32", "int64", "bool")
"""Element types that numexpr computes with."""


class ExprPoint(ProcessPoint):
    """An expression such as `a*b + 1`, element by element over arrays that broadcast.

    Args:
        expression: In numexpr's language: operators, `where`, `sqrt`, `sin`, ..., and `sum` or `prod` around it all.
        inputs: Names in the expression, one for each input of the node, in order; a mapping gives each its dtype.
        dtype: Element type of the inputs, unless `inputs` says so.
        name: Name of the point.

    Raises:
        UsageError: an input without a name, two of one name, or a dtype numexpr does not have.
    """

    kind: ClassVar[str] = "acme.expr"

    def __init__(
        self, expression: str, inputs: Sequence[str] | Mapping[str, str], dtype: str = "float32",
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        self.expression = expression
        self.inputs: tuple[str, ...] = tuple(inputs)
        self.dtypes = tuple(inputs.values()) if isinstance(inputs, Mapping) else (dtype,) * len(self.inputs)
        if not self.inputs or not all(name.isidentifier() for name in self.inputs):
            raise UsageError(f"inputs: expected at least one name, got {list(self.inputs)!r}")
        if len(set(self.inputs)) < len(self.inputs):
            raise UsageError(f"inputs: every name may be there once, got {list(self.inputs)!r}")
        for wanted in self.dtypes:
            if wanted not in DTYPES:
                raise UsageError(f"numexpr has no {wanted!r}", hint=f"use one of {', '.join(DTYPES)}")

    def caption(self) -> str:
        """The expression, for drawings."""
        return self.expression


def to_bytes(point: ProcessPoint) -> bytes:
    """A point as bytes, for graph files and models."""
    assert isinstance(point, ExprPoint)
    inputs = dict(zip(point.inputs, point.dtypes))
    return json.dumps({"expression": point.expression, "inputs": inputs, "name": point.name}).encode()


def from_bytes(data: bytes) -> ExprPoint:
    """The inverse of `to_bytes`."""
    fields = json.loads(data)
    return ExprPoint(fields["expression"], fields["inputs"], name=fields["name"])
