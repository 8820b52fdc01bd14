"""Functions can ask which instance they are, as long as there is one."""

from __future__ import annotations

from dflow_core.spi import FuncParams
from dflow_core.types import FuncSpec
from dflow_core.udf import MethodSpec, PythonFunc, python_funcs, running
from dflow_core.udf.running import announce


def test_it_is_known_from_init_to_close() -> None:
    package = PythonFunc("function", len, methods=(MethodSpec("len"),))
    (func,) = python_funcs(package, [FuncSpec("len", (0,), (0,))])
    announce(None)  # a function that another test did not close may still be known
    params = FuncParams("node", 1, 2)
    func.init(params)
    assert running() is params
    func.close()
    assert running() is None
