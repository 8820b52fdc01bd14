"""Python functions and classes as FlowFuncs: values out of messages, the call, results into messages.

Functions and the methods of a class get values and return values (python-api.md section 10.4). Hand-written classes
get a MetaRunContext and messages, and return codes (section 12.1).
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Sequence

from dflow_core.errors import NodeError, UsageError
from dflow_core.graph import running as calling
from dflow_core.message import ALIGN_FAILED, FlowMsg, MsgInfo, decode, msg_types
from dflow_core.spi import FlowFunc, FuncParams, InputQueue, RunContext, running_as
from dflow_core.types import FuncSpec
from dflow_core.udf.codes import STATUS_EXIT, SUCCESS
from dflow_core.udf.meta import MetaParams, MetaRunContext
from dflow_core.udf.packaging import MethodSpec, PythonFunc
from dflow_core.udf.queues import FlowMsgQueue, MessageQueue

_CALLS_NONE: contextlib.nullcontext[None] = contextlib.nullcontext()


class Instance:
    """The object behind the functions of one node, made once in the executor.

    Args:
        package: What travelled.
    """

    def __init__(self, package: PythonFunc) -> None:
        msg_types.update(getattr(package, "types", ()))  # one packed by an earlier version has none
        self._package = package
        self._target: object = None
        self._is_ready = False
        self._resets: object = None
        self._params: FuncParams | None = None

    def inside(self) -> contextlib.AbstractContextManager[None]:
        """Says which instance this is, while user code runs."""
        return running_as(self._params)

    def init(self, params: FuncParams) -> None:
        """Make the object; the second function of the same node finds it made.

        Raises:
            NodeError: if a hand-written class says it failed.
            Whatever the user's constructor raises.
        """
        if self._is_ready:
            return
        self._params = params
        with self.inside():
            self._make(params)
        self._is_ready = True

    def _make(self, params: FuncParams) -> None:
        package = self._package
        self._target = package.target
        if package.kind == "class":
            assert callable(package.target)
            self._target = package.target(*package.init_args, **package.init_kwargs)
        elif package.kind == "flow_func" and inspect.isclass(package.target):
            self._target = package.target()
            self._init_flow_func(params)

    def bound(self, name: str) -> Callable[..., object]:
        """The callable of a function: the target itself, or a method of it."""
        found: object = self._target if self._package.kind == "function" else getattr(self._target, name)
        if not callable(found):
            raise UsageError(f"{name!r} of {type(self._target).__name__} is not callable")
        return found

    def tell_lost(self, trans_id: int) -> None:
        """Call the object's own `on_lost`, if it has one and is an instance of a user's class."""
        told = getattr(self._target, "on_lost", None) if self._package.kind != "function" else None
        if callable(told):
            with self.inside():
                told(trans_id)

    def reset(self, face: object) -> None:
        """Call the object's `reset_func_state`, if it has one; once, though each function of the node asks for it.

        Raises:
            NodeError: it gives a code that says it failed.
        """
        self._resets = self._resets or face
        hook = getattr(self._target, "reset_func_state", None)
        if self._resets is not face or not callable(hook):
            return
        with self.inside():
            code = hook()
        if code not in (None, SUCCESS):
            raise NodeError(f"reset_func_state returned {code}", ret_code=_as_int(code))

    def close(self) -> None:
        """Call the object's own `close`, if it has one and is an instance of a user's class."""
        closer = getattr(self._target, "close", None) if self._package.kind != "function" else None
        self._target, self._is_ready = None, False
        if callable(closer):
            with self.inside():
                closer()

    def _init_flow_func(self, params: FuncParams) -> None:
        starter = getattr(self._target, "init_flow_func", None)
        if starter is None:
            return
        code = starter(MetaParams(params))
        if code not in (None, SUCCESS):
            raise NodeError(f"init_flow_func returned {code}", node=params.name, ret_code=int(code))


class ValueFunc(FlowFunc):
    """A function that gets values and returns values.

    Args:
        instance: Object the function belongs to.
        method: How to call it.
        spec: Its ports.
    """

    def __init__(self, instance: Instance, method: MethodSpec, spec: FuncSpec) -> None:
        self._instance = instance
        self._method = method
        self._spec = spec
        self._call: Callable[..., object] | None = None
        self._calls_graphs = False

    def init(self, params: FuncParams) -> None:
        self._instance.init(params)
        self._call = self._instance.bound(self._method.name)
        self._calls_graphs = bool(params.called)

    def proc(self, context: RunContext, inputs: Sequence[FlowMsg]) -> None:
        assert self._call is not None, "init() first"
        values = [_value(msg) for msg in inputs]
        with self._instance.inside(), self._calls(context):
            self.deliver(context, self._call(values) if self._spec.gather else self._call(*values))

    def proc_queues(self, context: RunContext, queues: Sequence[InputQueue]) -> None:
        assert self._call is not None, "init() first"
        with self._instance.inside(), self._calls(context):
            self.deliver(context, self._call(*map(FlowMsgQueue, queues)))

    def _calls(self, context: RunContext) -> contextlib.AbstractContextManager[None]:
        return calling(context) if self._calls_graphs else _CALLS_NONE

    def direct(self) -> Callable[..., object] | None:
        return self._call if self._method.choice_output is None else None

    def deliver(self, context: RunContext, result: object) -> None:
        if inspect.isgenerator(result):
            context.open_parts()
            for item in result:
                self._send(item, context.send_part)
        else:
            self._send(result, context.send)

    def on_lost(self, trans_id: int) -> None:
        self._instance.tell_lost(trans_id)

    def reset(self) -> None:
        self._instance.reset(self)

    def close(self) -> None:
        self._call = None
        self._instance.close()

    def _send(self, result: object, send: Callable[[int, object], None]) -> None:
        for index, item in enumerate(self._split(result)):
            choice = self._method.choice_output
            if choice is None or choice(item):
                send(index, item)

    def _split(self, result: object) -> Sequence[object]:
        """One value per output."""
        wanted = len(self._spec.outputs)
        if wanted == 0:
            return ()
        if wanted == 1:
            return (result,)
        if not isinstance(result, (tuple, list)) or len(result) != wanted:
            got = f"{len(result)} values" if isinstance(result, (tuple, list)) else f"a {type(result).__name__}"
            raise UsageError(
                f"{self._method.name} returned {got}, expected a tuple of {wanted}",
                hint="return one value per output, or set num_returns",
            )
        return result


class MessageFunc(FlowFunc):
    """A hand-written function that gets a MetaRunContext and messages, and returns a code.

    Args:
        instance: Object the function belongs to.
        method: How to call it.
        spec: Its ports.
    """

    def __init__(self, instance: Instance, method: MethodSpec, spec: FuncSpec) -> None:
        self._instance = instance
        self._method = method
        self._spec = spec
        self._balance = ""
        self._call: Callable[..., object] | None = None

    def init(self, params: FuncParams) -> None:
        self._instance.init(params)
        self._call = self._instance.bound(self._method.name)
        self._balance = params.balance

    def proc(self, context: RunContext, inputs: Sequence[FlowMsg]) -> None:
        assert self._call is not None, "init() first"
        # Heads of their own: what the function sets on an input is for what it sends on, not for all it sends.
        given = [FlowMsg(msg.info.copy(), msg.body, msg.aux, msg.block) for msg in inputs]
        with self._instance.inside():
            self._check(self._call(MetaRunContext(context, inputs, self._spec.outputs, self._balance), given))

    def on_exception(self, context: RunContext, code: int, user_context_id: int, head: MsgInfo) -> None:
        assert self._call is not None, "init() first"
        told = MetaRunContext(context, (), self._spec.outputs, self._balance, head, (code, user_context_id))
        with self._instance.inside():
            self._check(self._call(told, []))

    def on_lost(self, trans_id: int) -> None:
        self._instance.tell_lost(trans_id)

    def proc_queues(self, context: RunContext, queues: Sequence[InputQueue]) -> None:
        assert self._call is not None, "init() first"
        run_context = MetaRunContext(context, (), self._spec.outputs, self._balance, names_answers=True)
        with self._instance.inside():
            code = self._call(run_context, [MessageQueue(one) for one in queues])
        if code != STATUS_EXIT:
            self._check(code)

    @property
    def names_answers(self) -> bool:
        return True

    def _check(self, code: object) -> None:
        if code not in (None, SUCCESS):
            raise NodeError(f"{self._method.name} returned code {code}", ret_code=_as_int(code))

    def reset(self) -> None:
        self._instance.reset(self)

    def close(self) -> None:
        self._call = None
        self._instance.close()


def python_funcs(package: PythonFunc, specs: Sequence[FuncSpec]) -> list[FlowFunc]:
    """One FlowFunc for each function of a node; they share one object.

    Args:
        package: What travelled.
        specs: Ports of the functions, in the order of `package.methods`.
    """
    instance = Instance(package)
    if package.kind == "flow_func":
        return [MessageFunc(instance, method, spec) for method, spec in zip(package.methods, specs, strict=True)]
    return [ValueFunc(instance, method, spec) for method, spec in zip(package.methods, specs, strict=True)]


def _value(msg: FlowMsg) -> object:
    if msg.info.ret_code == ALIGN_FAILED:
        return None  # it did not come in time
    if msg.info.ret_code:
        raise NodeError(f"an input carries code {msg.info.ret_code}", ret_code=msg.info.ret_code)
    return decode(msg)


def _as_int(code: object) -> int:
    return code if isinstance(code, int) else -1
