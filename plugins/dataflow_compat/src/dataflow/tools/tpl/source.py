"""The source of a new function: a class that passes its first input on."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["python_source"]

_HEAD = '''import dataflow.flow_func as ff


class {clz}:
    """Made once in the executor; its functions share it."""

    @ff.init_wrapper()
    def init_flow_func(self, meta_params):
        """Read parameters here: meta_params.get_attr_int("name") gives a code and the value."""
        return ff.FLOW_FUNC_SUCCESS
'''

_METHOD = '''
    @ff.proc_wrapper("{ports}")
    def {name}(self, run_context, input_flow_msgs):
        """Gets one message for each of its inputs; {given}."""
        {body}
'''


def python_source(clz: str, functions: Sequence[tuple[str, str, Sequence[int], Sequence[int]]]) -> str:
    """A Python module with a class.

    Args:
        clz: Class name.
        functions: Name, ports as text, inputs and outputs of each function.
    """
    parts = [_HEAD.format(clz=clz)]
    for name, ports, inputs, outputs in functions:
        passes_on = bool(inputs and outputs)
        body = (
            f"return run_context.set_output({outputs[0]}, input_flow_msgs[0])" if passes_on
            else "return ff.FLOW_FUNC_SUCCESS"
        )
        given = "passes the first one on" if passes_on else "says that all is well"
        parts.append(_METHOD.format(ports=ports, name=name, body=body, given=given))
    return "".join(parts)
