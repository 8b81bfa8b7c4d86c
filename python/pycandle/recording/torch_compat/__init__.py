"""Every use of what torch keeps to itself: what it is for, and the oldest release among those we test (2.8 and later) that has it.

Nothing else in the package imports a module or touches an attribute of torch whose name begins with an underscore, nor
torch.fx.experimental; a test looks for it. When a new torch breaks recording, mend it here. docs/torch-versions.md lists the
releases that were tested. Symbolic sizes, which are slow to import, are in `symbolic`.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator

import torch
from torch import _VF as recurrent_kernels
from torch._higher_order_ops.scan import scan
from torch._ops import HigherOrderOperator, OpOverload
from torch._subclasses.fake_impls import op_implementations_dict as fake_kernels
from torch.fx.experimental import proxy_tensor
from torch.nn.modules import rnn as recurrent_modules
from torch.nn.modules.batchnorm import _NormBase as NormBase
from torch.nn.modules.dropout import _DropoutNd as DropoutBase
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = [
    "DropoutBase",  # every dropout is one; which are active decides whether a model is refused (2.8)
    "HigherOrderOperator",  # a call target in an exported graph, such as cond; there is no public name (2.8)
    "NormBase",  # every normalisation with running statistics is one (2.8)
    "OpOverload",  # a call target in an exported graph; there is no public name (2.8)
    "TorchDispatchMode",  # sees every operator that an eager run calls (2.8)
    "fake_kernels",  # some give a wrong dtype or are missing: fake_results.py puts right ones there (2.8)
    "pytree",  # torch.export flattens arguments by these trees: names and order of inputs follow them (2.8)
    "recurrent_kernels",  # what torch.nn.modules.rnn calls (2.8)
    "scan",  # loops over an open axis are recorded as one; there is no public name (2.8)
]

# `x.pad_sequence` as torch.nn.utils.rnn calls it: a stand-in must know the very function. (2.8)
PAD_SEQUENCE = torch._C._nn.pad_sequence
# What nn.AdaptiveMaxPool2d and 3d end in: (values, indices). (2.8)
ADAPTIVE_MAX_POOL2D, ADAPTIVE_MAX_POOL3D = torch._C._nn.adaptive_max_pool2d, torch._C._nn.adaptive_max_pool3d
# What math.sqrt of a size is in a graph. (2.8)
SYM_SQRT = torch._sym_sqrt
# What a tensor class has that overrides no function. (2.8)
DISABLED_TORCH_FUNCTION = torch._C._disabled_torch_function_impl


def parsed_move(*args, **kwargs) -> tuple[torch.device | None, torch.dtype | None]:
    """What `Module.to` is asked for: it takes a device, a dtype, both, or a tensor that has them. (2.8)"""
    return torch._C._nn._parse_to(*args, **kwargs)[:2]


def is_view(tensor: torch.Tensor) -> bool:
    """Does it share its memory with a tensor that it was made from? (2.8)"""
    return tensor._is_view()


# ---- operators ----------------------------------------------------------------------------------------------------


def schema_of(overload: OpOverload) -> torch.FunctionSchema:
    """Arguments and results of an operator. There is no public way to them. (2.8)"""
    return overload._schema


def name_of(overload: OpOverload) -> str:
    """`add`: the name alone, without namespace and overload. (2.8)"""
    return overload._schema.name.split("::")[1]


def overload_of(overload: OpOverload) -> str:
    """`Tensor` of `aten.add.Tensor`. (2.8)"""
    return overload._overloadname


def replace_kernels(overload: OpOverload, wrap: Callable[[Callable], Callable]) -> None:
    """Wraps a fake kernel that is a decomposition, which torch finds in several places. (2.8)"""
    decompositions = torch._decomp.decomposition_table
    for table, key in [
        *((overload.py_kernels, key) for key in overload.py_kernels),
        (decompositions, overload),
    ]:
        table[key] = wrap(table[key])
    overload._dispatch_cache.clear()


def drop_decomposition(overload: OpOverload) -> None:
    """From now on the operator is decomposed by its C++ kernel, not by torch's Python. (2.8)"""
    torch._decomp.decomposition_table.pop(overload, None)


# ---- while torch.export runs --------------------------------------------------------------------------------------


@contextlib.contextmanager
def export_prints_nothing() -> Iterator[None]:
    """torch.export prints the partial graph of an export that fails. (2.8)"""
    from torch.export import _trace

    _trace.print = lambda *_, **__: None
    try:
        yield
    finally:
        del _trace.print


@contextlib.contextmanager
def grad_mode_ignored() -> Iterator[None]:
    """`with torch.enable_grad()` changes no value; recorded, it would wrap part of the graph. (2.8)"""
    preserved = proxy_tensor._side_effectful_need_to_be_preserved_pre_dispatch
    kept = list(preserved)
    preserved[:] = [f for f in preserved if f is not torch._C._set_grad_enabled]
    try:
        yield
    finally:
        preserved[:] = kept


@contextlib.contextmanager
def targets_written_by(write: Callable[[str, str], str]) -> Iterator[None]:
    """How generated code names a parameter: torch's own way fails for `nn.ModuleDict({"class": …})`. (2.8)"""
    original = torch.fx.graph._format_target
    torch.fx.graph._format_target = write
    try:
        yield
    finally:
        torch.fx.graph._format_target = original


@contextlib.contextmanager
def frames_chosen_by(choose: Callable) -> Iterator[None]:
    """Which frames a node's stack trace keeps: torch keeps those called `forward`. (2.9; 2.8 keeps no trace, so nodes get one here)"""
    tracer = torch.fx.proxy.TracerBase
    if hasattr(tracer, "_filter_traceback_frames"):
        name, replacement = "_filter_traceback_frames", lambda _tracer, summary: choose(summary)
    else:
        name, replacement = "create_node", _with_traces(tracer.create_node, choose)
    original = getattr(tracer, name)
    setattr(tracer, name, replacement)
    try:
        yield
    finally:
        setattr(tracer, name, original)


def _with_traces(create_node: Callable, choose: Callable) -> Callable:
    from torch.utils._traceback import CapturedTraceback

    def create(self, *args, **kwargs):
        node = create_node(self, *args, **kwargs)
        if not node.stack_trace and (frames := choose(CapturedTraceback.extract().summary())):
            node.stack_trace = "".join(frames.format()).strip()
        return node

    return create


@contextlib.contextmanager
def recurrent_kernels_replaced(kernels: object) -> Iterator[None]:
    """What torch.nn.modules.rnn calls. (2.8)"""
    original = recurrent_modules._VF
    recurrent_modules._VF = kernels
    try:
        yield
    finally:
        recurrent_modules._VF = original


class _Opaque(list):
    """A list that trees take for one leaf."""


@contextlib.contextmanager
def recurrent_model_accepted(model: torch.nn.Module) -> Iterator[None]:
    """torch.export refuses an nn.LSTM that is the whole model: its list of its own parameters changes while they are fake. (2.8)"""
    if not isinstance(model, torch.nn.RNNBase):
        yield
        return
    weights = model._flat_weights
    model._flat_weights = _Opaque(weights)
    try:
        yield
    finally:
        model._flat_weights = weights


@contextlib.contextmanager
def distributions_not_validated() -> Iterator[None]:
    """The setter is public, what it was set to is not. (2.8)"""
    kind = torch.distributions.Distribution
    before = kind._validate_args
    kind.set_default_validate_args(False)
    try:
        yield
    finally:
        kind._validate_args = before


def module_of(exported: torch.export.ExportedProgram) -> torch.nn.Module:
    """Without guards: whether a size fits is ours to say. (2.9; 2.8 makes none)"""
    has_guards = "check_guards" in inspect.signature(exported.module).parameters
    return exported.module(check_guards=False) if has_guards else exported.module()


def decomposed(exported: torch.export.ExportedProgram, table: dict) -> torch.export.ExportedProgram:
    """run_decompositions. That of 2.9 fails for `forward(*xs)`: it runs guards, which name such inputs wrongly. (2.8)"""
    if not torch.__version__.startswith("2.9."):
        return exported.run_decompositions(table)
    exported.module = functools.partial(exported.module, check_guards=False)
    try:
        return exported.run_decompositions(table)
    finally:
        del exported.module


def parts_of(spec: pytree.TreeSpec) -> list[pytree.TreeSpec]:
    """The trees inside a tree. (2.9; 2.8 has the attribute alone)"""
    return spec.children() if hasattr(spec, "children") else spec.children_specs


def _size(parts: Iterable, context: object) -> tuple:
    parts = tuple(parts)
    return torch.Size(parts) if all(isinstance(part, (int, torch.SymInt)) for part in parts) else parts


# torch takes a torch.Size apart as a tuple and gives a tuple back, which has no numel(). (2.8)
if torch.Size in pytree.SUPPORTED_NODES:
    pytree.SUPPORTED_NODES[torch.Size] = pytree.SUPPORTED_NODES[torch.Size]._replace(unflatten_fn=_size)


def is_plain_container(node: object) -> bool:
    """Whether trees know this kind of container without being told. (2.8)"""
    return pytree._get_node_type(node) in pytree.BUILTIN_TYPES


def inside_vmap() -> bool:
    """Whether Python runs inside a function that vmap maps. (2.8)"""
    functorch = torch._C._functorch
    return any(
        level.key() == functorch.TransformType.Vmap for level in functorch.get_interpreter_stack() or ()
    )


# ---- modules and tensors ------------------------------------------------------------------------------------------


def buffers_of(module: torch.nn.Module) -> dict[str, torch.Tensor | None]:
    """The module's own, to be assigned to: register_buffer refuses what a model may do. (2.8)"""
    return module._buffers


def children_of(module: torch.nn.Module) -> dict[str, torch.nn.Module | None]:
    """The module's own, to be put back in their order: setattr would call a model's __setattr__. (2.8)"""
    return module._modules


def compiled_type() -> type:
    """What torch.compile makes of a module. torch._dynamo is slow to import, so it is imported when asked for. (2.8)"""
    from torch._dynamo import OptimizedModule

    return OptimizedModule


def before_compile(module: torch.nn.Module) -> torch.nn.Module:
    """The module inside. (2.8)"""
    return module._orig_mod


def scripted_type(module: torch.jit.ScriptModule) -> object | None:
    """Class, attributes and constants of what torch.jit.script was given; none for a module from a file. (2.8)"""
    return getattr(module, "_concrete_type", None)


def writes_into(tensor: torch.Tensor) -> int:
    """Counts the writes into a tensor. (2.8)"""
    return tensor._version


def memory_of(tensor: torch.Tensor) -> int:
    """The same for tensors that share memory, also for those of no elements and without an address. (2.8)"""
    return tensor.untyped_storage()._cdata


# ---- settings -----------------------------------------------------------------------------------------------------


def no_memory_of_shapes():
    """torch.cond and its like compile what they call, for sizes that varied in earlier calls too. (2.8)"""
    import torch._dynamo

    return torch._dynamo.config.patch(automatic_dynamic_shapes=False)


@contextlib.contextmanager
def without_onednn() -> Iterator[None]:
    """torch.backends.mkldnn.flags does the same, with a warning about GPUs. (2.8)"""
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(before)


def freeze_weights_in_compiled_modules() -> None:
    """torch.compile then takes weights as constants, as other runtimes do. (2.8)"""
    import torch._inductor.config

    torch._inductor.config.freezing = True
