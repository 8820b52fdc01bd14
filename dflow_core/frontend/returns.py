"""How many outputs a function has, from its return annotation.

    no annotation, `-> None`, `-> int`, `-> list[int]`, `-> Optional[int]`   1
    `-> tuple[A, B]`                                                         2
    `-> tuple[A, ...]`                                                       1 (the tuple itself)
    `-> Iterator[tuple[A, B]]` of a generator function                       2

A function that returns nothing has one output too: its empty messages tell that a call is over, and a node without
outputs would not belong to any graph. Annotations written as text are resolved where their names are known, else read
by their form.
"""

from __future__ import annotations

import ast
import collections.abc
import inspect
import typing
from collections.abc import Callable
from types import FunctionType

from dflow_core.errors import OptionError

_GENERATORS = (
    collections.abc.Generator, collections.abc.Iterator, collections.abc.Iterable,
)
_GENERATOR_NAMES = frozenset({"Generator", "Iterator", "Iterable"})


def count_returns(func: Callable[..., object], num_returns: int | None, is_generator: bool) -> int:
    """Outputs of a function.

    Args:
        func: The function.
        num_returns: What the user says; must agree with a tuple annotation.
        is_generator: Whether the annotation says what a generator is, rather than what it yields.

    Raises:
        OptionError: `num_returns` is no number from 1 on, or differs from the annotation.
    """
    annotated = _annotated(func, is_generator)
    if num_returns is None:
        return annotated or 1
    if isinstance(num_returns, bool) or not isinstance(num_returns, int) or num_returns < 1:
        raise OptionError(f"num_returns: expected a whole number of at least 1, got {num_returns!r}")
    if annotated is not None and annotated > 1 and annotated != num_returns:
        raise OptionError(
            f"num_returns: expected {annotated}, as the return annotation says, got {num_returns}",
            hint="leave num_returns out, or correct the annotation",
        )
    return num_returns


def _annotated(func: Callable[..., object], is_generator: bool) -> int | None:
    annotation = getattr(func, "__annotations__", {}).get("return", inspect.Signature.empty)
    if annotation is inspect.Signature.empty:
        return None
    if isinstance(annotation, str):
        resolved = _resolved(func, annotation)
        if resolved is None:
            return _count_in_text(annotation, is_generator)
        annotation = resolved
    return _count(annotation, is_generator)


def _resolved(func: Callable[..., object], text: str) -> object:
    """What an annotation written as text means, or None if a name in it is not known."""

    def probe() -> None: ...

    probe.__annotations__ = {"return": text}
    variables: dict[str, object] = {}
    if isinstance(func, FunctionType):
        variables = dict(func.__globals__)
        for name, cell in zip(func.__code__.co_freevars, func.__closure__ or ()):
            try:
                variables[name] = cell.cell_contents
            except ValueError:  # not set yet
                continue
    try:
        found: object = typing.get_type_hints(probe, variables)["return"]
    except Exception:  # evaluating what users wrote may raise anything
        return None
    return found


def _count(annotation: object, is_generator: bool) -> int:
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _count(args[0], is_generator)
    if is_generator and origin in _GENERATORS and args:
        return _count(args[0], False)
    if origin is tuple and args and Ellipsis not in args:
        return len(args)
    return 1


def _count_in_text(text: str, is_generator: bool) -> int:
    """The same from the form of an annotation whose names are not known."""
    try:
        node: ast.expr = ast.parse(text, mode="eval").body
    except SyntaxError:
        return 1
    if not isinstance(node, ast.Subscript):
        return 1
    name = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
    args = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if is_generator and name in _GENERATOR_NAMES:
        return _count_in_text(ast.unparse(args[0]), False)
    has_ellipsis = any(isinstance(arg, ast.Constant) and arg.value is Ellipsis for arg in args)
    return len(args) if name in ("tuple", "Tuple") and not has_ellipsis else 1
