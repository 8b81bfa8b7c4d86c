"""The call `model(*args, **kwargs)` as named leaves: trees, names, and the text form `name=f32[1,3,224,224]`."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import pathlib
import re
import types
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from ..errors import UsageError
from .torch_compat import parts_of, pytree

DTYPES = {
    "f64": torch.float64,
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "i64": torch.int64,
    "i32": torch.int32,
    "i16": torch.int16,
    "i8": torch.int8,
    "u8": torch.uint8,
    "bool": torch.bool,
    "c64": torch.complex64,
    "c128": torch.complex128,
}
DTYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}

_EXPORTED = (
    bool,
    int,
    float,
    str,
    type(None),
)  # plain values that torch.export takes; subclasses it does not
_VALUES = (
    *_EXPORTED, enum.Enum, torch.Size, torch.dtype, torch.device, torch.layout, torch.memory_format, complex, bytes, range,
    slice, type(...), np.generic, pathlib.PurePath, types.FunctionType, types.BuiltinFunctionType,
)  # fmt: skip


@dataclass(frozen=True)
class Inputs:
    """The arguments of one call, flattened. `leaves[i]` stands at the path `names[i]`."""

    args: tuple
    kwargs: dict
    leaves: tuple
    names: tuple[str, ...]
    spec: pytree.TreeSpec
    top_names: tuple[str, ...]
    signature: inspect.Signature

    def tensors(self) -> list[tuple[int, str, torch.Tensor]]:
        named = zip(self.names, self.leaves, strict=True)
        return [(i, name, leaf) for i, (name, leaf) in enumerate(named) if isinstance(leaf, torch.Tensor)]

    def with_leaves(self, leaves: Sequence) -> Inputs:
        args, kwargs = pytree.tree_unflatten(list(leaves), self.spec)
        return replace(self, args=args, kwargs=kwargs, leaves=tuple(leaves))

    def copied(self) -> Inputs:
        """The same values in fresh tensors: a model may write into its inputs."""
        return self.with_leaves([_fresh(leaf) for leaf in self.leaves])

    def shapes(self) -> dict[str, list[int]]:
        return {name: list(tensor.shape) for _, name, tensor in self.tensors()}


def _fresh(leaf: object) -> object:
    return leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf


def is_odd_value(leaf: object) -> bool:
    """Whether an argument is a value that does not change and that torch.export refuses."""
    return isinstance(leaf, _VALUES) and type(leaf) not in _EXPORTED


def gather_inputs(signature: inspect.Signature, args: tuple, kwargs: dict) -> Inputs:
    """Names every leaf of a call by the argument of `forward` it belongs to."""
    register_dataclasses((args, kwargs))
    top = _argument_names(signature, args, kwargs)
    with_paths, spec = pytree.tree_flatten_with_path((args, kwargs), is_leaf=is_odd_value)
    names = []
    for path, _ in with_paths:
        first = top[path[1].idx] if path[0].idx == 0 else str(path[1].key)
        names.append(".".join([first, *(step_name(key) for key in path[2:])]))
    if len(set(names)) != len(names):
        raise UsageError(
            f"two inputs have the same name: {sorted(n for n in names if names.count(n) > 1)[0]}"
        )
    leaves = tuple(leaf for _, leaf in with_paths)
    _refuse_odd_inputs(dict(zip(names, leaves, strict=True)))
    return Inputs(args, kwargs, leaves, tuple(names), spec, (*top, *kwargs), signature)


def _refuse_odd_inputs(leaves: dict[str, object]) -> None:
    for name, leaf in leaves.items():
        if isinstance(leaf, torch.Tensor) and (leaf.is_nested or leaf.layout is not torch.strided):
            layout = "nested" if leaf.is_nested else f"of the layout {leaf.layout}"
            raise UsageError(
                f"the input {name} is {layout}: only dense tensors can be recorded; give {name}.to_dense(), "
                "or rows padded to one length and a mask"
            )
        if isinstance(leaf, torch.nn.Module):
            raise UsageError(
                f"the input {name} is a module ({type(leaf).__name__}), whose weights would belong to no model: "
                "keep it in an attribute of the module that is recorded"
            )


def bound_arguments(signature: inspect.Signature, args: tuple, kwargs: dict) -> inspect.BoundArguments:
    try:
        return signature.bind(*args, **kwargs)
    except TypeError as error:
        raise UsageError(f"the inputs do not fit forward{signature}: {error}") from None


def _argument_names(signature: inspect.Signature, args: tuple, kwargs: dict) -> list[str]:
    bound_arguments(signature, args, kwargs)
    names = []
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}.{i}" for i in range(len(args) - len(names))]
            break
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            names.append(parameter.name)
    return names[: len(args)]


def step_name(key: object) -> str:
    if isinstance(key, pytree.SequenceKey):
        return str(key.idx)
    if isinstance(key, pytree.MappingKey):
        return str(key.key)
    return str(getattr(key, "name", key))


def register_dataclasses(tree: object) -> None:
    """Lets torch look inside plain dataclasses, which users pass and return without registering them."""
    for value in _containers(tree):
        if dataclasses.is_dataclass(value) and type(value) not in pytree.SUPPORTED_NODES:
            torch.export.register_dataclass(type(value))


def _containers(tree: object, depth: int = 0):
    if depth > 20 or isinstance(tree, (torch.Tensor, torch.nn.Module, str)):
        return
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        yield tree
        children = [getattr(tree, field.name) for field in dataclasses.fields(tree)]
    elif isinstance(tree, dict):
        children = list(tree.values())
    elif isinstance(tree, (list, tuple)):
        children = list(tree)
    else:
        return
    for child in children:
        yield from _containers(child, depth + 1)


def flatten_outputs(result: object) -> tuple[list, list[str], pytree.TreeSpec]:
    """The leaves of what a model returned, their names (`output.logits`), and the nesting."""
    register_dataclasses(result)
    with_paths, spec = pytree.tree_flatten_with_path(result)
    names = [".".join(["output", *(step_name(key) for key in path)]) for path, _ in with_paths]
    return [leaf for _, leaf in with_paths], names, spec


def names_of_outputs(spec: pytree.TreeSpec) -> list[str]:
    return flatten_outputs(pytree.tree_unflatten(list(range(spec.num_leaves)), spec))[1]


def describe_tree(spec: pytree.TreeSpec, leaves: list[dict], prefix: str) -> dict:
    """The nesting for language bindings; `leaves` are the descriptions of the leaves in order."""
    remaining = iter(leaves)
    tree = _describe(spec, remaining, prefix)
    return tree


def _describe(spec: pytree.TreeSpec, remaining, name: str) -> dict:
    if spec.is_leaf():
        return {**next(remaining), "name": name}
    children = parts_of(spec)
    kind, keys = _kind_of(spec, len(children))
    described = {"kind": kind, "class": _class_name(spec.type)}
    if keys is not None:
        described["keys"] = [str(key) for key in keys]
    steps = keys if keys is not None else range(len(children))
    join = (lambda step: f"{name}.{step}") if name else str
    described["items"] = [
        _describe(child, remaining, join(step)) for step, child in zip(steps, children, strict=True)
    ]
    return described


def _kind_of(spec: pytree.TreeSpec, count: int) -> tuple[str, list | None]:
    if spec.type in (tuple, list):
        return spec.type.__name__, None
    if isinstance(spec.type, type) and issubclass(spec.type, tuple):
        return "tuple", None
    keys = _string_keys(spec.context, count)
    if isinstance(spec.type, type) and dataclasses.is_dataclass(spec.type):
        return "dataclass", keys or [field.name for field in dataclasses.fields(spec.type)][:count]
    return "dict", keys or list(range(count))


def _string_keys(context: object, count: int) -> list | None:
    """Pytree contexts hold the keys as a list, or (for dataclasses and some dicts) inside one more list."""
    if isinstance(context, (list, tuple)):
        if len(context) == count and all(isinstance(key, (str, int)) for key in context):
            return list(context)
        for part in context:
            if (keys := _string_keys(part, count)) is not None and count:
                return keys
    return None


def _class_name(kind: object) -> str:
    return f"{kind.__module__}.{kind.__qualname__}" if isinstance(kind, type) else str(kind)


# ---- the text form -------------------------------------------------------------------------------------------

_INPUT_TEXT = re.compile(
    r"^(?P<name>[A-Za-z_][\w.]*)=(?P<dtype>\w+)\[(?P<shape>[\d,\s]*)\]"
    r"(?:<(?P<below>-?\d+)|:(?P<low>-?\d+)\.\.(?P<high>-?\d+))?$"
)
_DEFAULT_INTEGERS = (0, 9)


def parse_input(text: str, generator: torch.Generator, device: str = "cpu") -> tuple[str, torch.Tensor]:
    """`x=f32[1,3,8]`, `ids=i64[2,8]<1000` (below 1000), `ids=i64[2,8]:0..999`, `mask=bool[2,8]`: random values."""
    match = _INPUT_TEXT.match(text.strip())
    if not match:
        raise UsageError(
            f"cannot read the input {text!r}: expected name=dtype[sizes], such as x=f32[1,3,224,224] or ids=i64[2,8]<1000"
        )
    if match["dtype"] not in DTYPES:
        raise UsageError(f"unknown dtype {match['dtype']!r} in {text!r}: one of {' '.join(DTYPES)}")
    shape = [int(size) for size in match["shape"].split(",") if size.strip()]
    dtype = DTYPES[match["dtype"]]
    low, high = _value_range(match, dtype)
    return match["name"], random_tensor(shape, dtype, low, high, generator, device)


def _value_range(match: re.Match, dtype: torch.dtype) -> tuple[int, int]:
    given = match["below"] is not None or match["low"] is not None
    if given and (dtype.is_floating_point or dtype.is_complex or dtype is torch.bool):
        raise UsageError(f"a range is for integers only: {match.string!r}")
    if match["below"] is not None:
        low, high = 0, int(match["below"]) - 1
    elif match["low"] is not None:
        low, high = int(match["low"]), int(match["high"])
    else:
        low, high = _DEFAULT_INTEGERS
    if low > high:
        raise UsageError(f"empty range {low}..{high} in {match.string!r}")
    return low, high


def random_tensor(shape, dtype, low, high, generator, device="cpu") -> torch.Tensor:
    if device == "meta":
        return torch.empty(shape, dtype=dtype, device="meta")
    if dtype is torch.bool:
        return torch.rand(shape, generator=generator) < 0.5
    if dtype.is_floating_point or dtype.is_complex:
        wide = torch.complex64 if dtype.is_complex else torch.float32
        return torch.randn(shape, generator=generator, dtype=wide).to(dtype)
    return torch.randint(low, high + 1, shape, generator=generator).to(dtype)


def nest_inputs(named: dict[str, torch.Tensor]) -> dict:
    """`{"past.0.key": t}` → `{"past": [{"key": t}]}`: names by path become nested keyword arguments."""
    tree: dict = {}
    for name, tensor in named.items():
        *parents, last = name.split(".")
        level = tree
        for parent in parents:
            level = level.setdefault(parent, {})
            if not isinstance(level, dict):
                raise UsageError(f"input {name!r}: {parent!r} is a tensor and a container")
        level[last] = tensor
    return {name: _lists(value) for name, value in tree.items()}


def _lists(value: object) -> object:
    if not isinstance(value, dict):
        return value
    if all(key.isdigit() for key in value):
        return tuple(_lists(value[key]) for key in sorted(value, key=int))
    return {key: _lists(child) for key, child in value.items()}


def arguments_by_name(signature: inspect.Signature, named: dict[str, torch.Tensor]) -> tuple[tuple, dict]:
    """The arguments of a call from inputs named by path; `xs.0`, `xs.1` for `*xs`."""
    nested = nest_inputs(named)
    args: list = []
    kwargs: dict = {}
    for parameter in signature.parameters.values():
        if parameter.name not in nested:
            continue
        value = nested.pop(parameter.name)
        if parameter.kind is parameter.VAR_POSITIONAL:
            args += value
        elif parameter.kind is parameter.POSITIONAL_ONLY or (
            any(p.kind is p.VAR_POSITIONAL for p in signature.parameters.values()) and not kwargs
        ):
            args.append(value)
        else:
            kwargs[parameter.name] = value
    takes_any = any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())
    if nested and not takes_any:
        raise UsageError(f"forward{signature} has no argument {', '.join(nested)}")
    return tuple(args), {**kwargs, **nested}
