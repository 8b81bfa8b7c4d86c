"""Functions whose loops may run an open number of times, rewritten: see `open_loops.py`, which runs what is written here.

    for t in range(x.shape[1]):                    rounds = (x.shape[1],)
        state = decay[:, t] * state + x[:, t]      def round_(rows, state):
        out.append(state * gate)            →          state = rows[0] * state + rows[1]
                                                       given = state * gate
                                                       return (state,), (given,)
                                                   done = loop(rounds, round_, …)
                                                   if done is not None: state, out = done
                                                   else: the loop as it was

A loop is rewritten when its variable only picks rows of tensors, and when what a round leaves behind is seen: names that are
assigned, rows that are appended to a list, rows that are written into a tensor. Other loops stay as they are.
"""

from __future__ import annotations

import ast
import copy
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

LOOP = "__pycandle_loop__"  # the name, among Python's own, of what runs a rewritten loop
_ROWS = "__pycandle_rows"


class NotRewritten(Exception):
    """The loop does something whose meaning in a scan is not known."""


# ---- what statements read and assign ------------------------------------------------------------------------


@dataclass
class Flow:
    """Of statements one after the other: names that are read before they are surely assigned, and the names assigned."""

    read: set[str] = field(default_factory=set)
    surely: set[str] = field(default_factory=set)
    maybe: set[str] = field(default_factory=set)

    def then(self, other: Flow) -> None:
        self.read |= other.read - self.surely
        self.surely |= other.surely
        self.maybe |= other.maybe


def flow(statements: list[ast.stmt]) -> Flow:
    total = Flow()
    for statement in statements:
        total.then(_flow_of(statement))
    return total


def _flow_of(statement: ast.stmt) -> Flow:
    if isinstance(statement, (ast.If, ast.For, ast.While)):
        is_if = isinstance(statement, ast.If)
        head = statement.iter if isinstance(statement, ast.For) else statement.test
        result = Flow(_loaded(head), set(), _stored(head))
        if isinstance(statement, ast.For):
            result.maybe |= _stored(statement.target)
        parts = [flow(statement.body), flow(statement.orelse)]
        bound = _stored(statement.target) if isinstance(statement, ast.For) else set()
        for part in parts:
            result.read |= part.read - bound
            result.maybe |= part.maybe
        if is_if:
            result.surely = parts[0].surely & parts[1].surely
        return result
    stored = _stored(statement)
    read = _loaded(statement)
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
        read = read | {statement.target.id}
    return Flow(read, set(stored), set(stored))


_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def _loaded(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Name):
        return set() if isinstance(node.ctx, ast.Store) else {node.id}
    names = set().union(*map(_loaded, ast.iter_child_nodes(node)))
    if isinstance(node, _COMPREHENSIONS):  # its variables are its own
        names -= set().union(*(_stored(part.target) for part in node.generators))
    return names


def _values_loaded(node: ast.AST) -> set[str]:
    """Without names of which only the kind is asked: out.dtype."""
    if (
        isinstance(node, ast.Attribute)
        and node.attr in ("dtype", "device")
        and isinstance(node.value, ast.Name)
    ):
        return set()
    own = {node.id} if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Store) else set()
    return own.union(*map(_values_loaded, ast.iter_child_nodes(node)))


def _stored(node: ast.AST) -> set[str]:
    if isinstance(node, _COMPREHENSIONS):
        return set()
    if isinstance(node, ast.Name):
        return {node.id} if isinstance(node.ctx, ast.Store) else set()
    return set().union(*map(_stored, ast.iter_child_nodes(node)))


def _is_live(name: str, rests: list[list[ast.stmt]]) -> bool:
    """Is the value of a name read behind the loop? `rests`: the statements behind it, of the innermost block first."""
    for rest in rests:
        after = flow(rest)
        if name in after.read:
            return True
        if name in after.surely:
            return False
    return False


# ---- the loop ------------------------------------------------------------------------------------------------

_PLAIN = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.If, ast.For, ast.Pass)
_OPAQUE = (ast.Lambda, ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)


@dataclass
class Parts:
    """Of a loop: where its rounds read and write. The expressions are evaluated before it."""

    rows: list[tuple[ast.expr, tuple[str, ...]]] = field(
        default_factory=list
    )  # tensor, kinds of the entries before
    lists: list[str] = field(default_factory=list)
    written: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    given: list[str] = field(default_factory=list)  # names of what a round appends or writes, in order
    is_list: list[bool] = field(default_factory=list)


class _Round(ast.NodeTransformer):
    """The body of a loop as a round: picks become rows, what is appended or written becomes a value that is given back."""

    def __init__(self, variable: str, assigned: set[str]):
        self.variable = variable
        self.assigned = assigned
        self.parts = Parts()

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        entries = _entries(node)
        if not any(_is_name(entry, self.variable) for entry in entries):
            return self.generic_visit(node)
        before, rest = _split(entries, self.variable)
        if (
            not isinstance(node.ctx, ast.Load)
            or not _is_place(node.value)
            or _loaded(node.value) & self.assigned
        ):
            raise NotRewritten
        known = [ast.dump(base) + str(kinds) for base, kinds in self.parts.rows]
        key = ast.dump(node.value) + str(before)
        if key not in known:
            self.parts.rows.append((node.value, before))
            known.append(key)
        row = ast.Subscript(ast.Name(_ROWS, ast.Load()), ast.Constant(known.index(key)), ast.Load())
        if all(_is_whole(entry) for entry in rest):
            return ast.copy_location(row, node)
        index = [self.visit(entry) for entry in rest]
        picked = ast.Subscript(row, index[0] if len(index) == 1 else ast.Tuple(index, ast.Load()), ast.Load())
        return ast.copy_location(picked, node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id == self.variable:
            raise NotRewritten  # the number of the round itself
        return node

    def given(self, value: ast.expr, at: ast.stmt, is_list: bool) -> ast.stmt:
        name = f"__pycandle_given_{len(self.parts.given)}"
        self.parts.given.append(name)
        self.parts.is_list.append(is_list)
        return ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], self.visit(value)), at)


def _entries(node: ast.Subscript) -> list[ast.expr]:
    return list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _is_place(node: ast.expr) -> bool:
    """x, self.x, inputs[0]: what can be read once more without an effect."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return isinstance(node, ast.Name)


def _is_whole(entry: ast.expr) -> bool:
    is_slice = isinstance(entry, ast.Slice) and entry.lower is entry.upper is entry.step is None
    return is_slice or (isinstance(entry, ast.Constant) and entry.value is Ellipsis)


def _kind(entry: ast.expr) -> str:
    if isinstance(entry, ast.Constant) and entry.value in (None, Ellipsis):
        return "new" if entry.value is None else "ellipsis"
    number = entry.operand if isinstance(entry, ast.UnaryOp) else entry
    if isinstance(entry, ast.Slice) or (isinstance(number, ast.Constant) and type(number.value) is int):
        return "axis"
    raise NotRewritten  # a mask takes several axes


def _split(entries: list[ast.expr], variable: str) -> tuple[tuple[str, ...], list[ast.expr]]:
    """The kinds of the entries as they are, the loop's own among them, and the entries without it."""
    kinds = tuple("loop" if _is_name(entry, variable) else _kind(entry) for entry in entries)
    if kinds.count("loop") != 1:
        raise NotRewritten
    return kinds, [entry for entry in entries if not _is_name(entry, variable)]


def _appended(statement: ast.stmt) -> tuple[str, ast.expr] | None:
    """out.append(x), out += [x]"""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        call = statement.value
        is_append = isinstance(call.func, ast.Attribute) and call.func.attr == "append"
        if is_append and isinstance(call.func.value, ast.Name) and len(call.args) == 1 and not call.keywords:
            return call.func.value.id, call.args[0]
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
        value = statement.value
        if isinstance(statement.op, ast.Add) and isinstance(value, ast.List) and len(value.elts) == 1:
            return statement.target.id, value.elts[0]
    return None


def _written(statement: ast.stmt, variable: str) -> tuple[str, ast.Subscript] | None:
    """out[:, t] = x"""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    target = statement.targets[0]
    if not isinstance(target, ast.Subscript) or not isinstance(target.value, ast.Name):
        return None
    is_row = any(_is_name(entry, variable) for entry in _entries(target))
    return (target.value.id, target) if is_row else None


def rewritten(loop: ast.For, rests: list[list[ast.stmt]]) -> list[ast.stmt]:
    """The statements in the place of a loop over `range(…)`; raises NotRewritten."""
    if not isinstance(loop.target, ast.Name) or loop.orelse or not _is_over_a_range(loop.iter):
        raise NotRewritten
    variable = loop.target.id
    if _is_live(variable, rests):
        raise NotRewritten
    effects = [_appended(statement) or _written(statement, variable) for statement in loop.body]
    inside = [_without_effect(statement, variable) for statement in loop.body]
    names = flow(inside)
    assigned = names.maybe | _element_targets(inside)
    values = set().union(*map(_values_loaded, inside))
    if {effect[0] for effect in effects if effect} & (values | assigned) or variable in assigned:
        raise NotRewritten  # a round reads what earlier ones appended
    for statement, effect in zip(inside, effects, strict=True):
        _check(statement, effect is not None)
    left = {name for name in names.maybe - names.surely if _is_live(name, rests)}
    carried = sorted((names.read & assigned) | left | _element_targets(inside))
    last = sorted(name for name in names.surely - set(carried) if _is_live(name, rests))
    maker = _Round(variable, assigned)
    body: list[ast.stmt] = []
    for statement in copy.deepcopy(loop.body):
        if found := _appended(statement):
            name, value = found
            if name in maker.parts.lists:
                raise NotRewritten
            maker.parts.lists.append(name)
            body.append(maker.given(value, statement, True))
        elif found := _written(statement, variable):
            name, target = found
            kinds, rest = _split(_entries(target), variable)
            if name in [n for n, _ in maker.parts.written] or not all(_is_whole(entry) for entry in rest):
                raise NotRewritten
            maker.parts.written.append((name, kinds))
            body.append(maker.given(statement.value, statement, False))
        else:
            body.append(maker.visit(statement))
    return _statements(loop, body, maker.parts, carried, last)


def _is_over_a_range(node: ast.expr) -> bool:
    is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range"
    return (
        is_call
        and len(node.args) in (1, 2)
        and not node.keywords
        and not any(isinstance(a, ast.Starred) for a in node.args)
    )


def _without_effect(statement: ast.stmt, variable: str) -> ast.stmt:
    """What an append or a write reads, without the list or tensor that it goes to."""
    found = _appended(statement)
    if found or _written(statement, variable):
        return ast.copy_location(ast.Expr(found[1] if found else statement.value), statement)
    return statement


def _element_targets(statements: list[ast.stmt]) -> set[str]:
    """h of `h[i] = x`: it is another one after the round."""
    found = set()
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
                if not isinstance(node.value, ast.Name):
                    raise NotRewritten
                found.add(node.value.id)
    return found


def _check(statement: ast.stmt, is_effect: bool) -> None:
    """Only statements whose whole effect are names. `is_effect`: what an append or a write reads."""
    for node in ast.walk(statement):
        if isinstance(node, ast.stmt) and not isinstance(node, _PLAIN):
            raise NotRewritten
        if isinstance(node, ast.For) and node.orelse:
            raise NotRewritten
        if isinstance(node, _OPAQUE) or (isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)):
            raise NotRewritten
        if isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant) and not is_effect:
            raise NotRewritten  # it is called for what it does


def _statements(
    loop: ast.For, body: list[ast.stmt], parts: Parts, carried: list[str], last: list[str]
) -> list[ast.stmt]:
    number = f"{loop.lineno}_{loop.col_offset}"
    rounds, function, done = (f"__pycandle_{what}_{number}" for what in ("rounds", "round", "done"))

    def load(name: str) -> ast.Name:
        return ast.Name(name, ast.Load())

    def names(of: list[str], context: ast.expr_context) -> ast.Tuple:
        return ast.Tuple([ast.Name(name, context) for name in of], context)

    def later(value: ast.expr) -> ast.Lambda:
        return ast.Lambda(_arguments([]), value)

    returned = ast.Return(
        ast.Tuple([names(carried, ast.Load()), names([*parts.given, *last], ast.Load())], ast.Load())
    )
    round_ = ast.FunctionDef(function, _arguments([_ROWS, *carried]), [*body, returned], [])
    lists, written = iter(parts.lists), iter(parts.written)
    places = [(next(lists), None) if is_list else next(written) for is_list in parts.is_list]
    targets = [name for name, _ in places]
    call = ast.Call(
        load(LOOP),
        [
            load(rounds),
            load(function),
            ast.Constant(tuple(entries for _, entries in parts.rows)),
            ast.Constant(tuple(entries for _, entries in places)),
            later(ast.Tuple([base for base, _ in parts.rows], ast.Load())),
            later(names(carried, ast.Load())),
            later(names(targets, ast.Load())),
            ast.Constant(loop.lineno),
        ],
        [],
    )
    results = [*carried, *targets, *last]
    taken: ast.stmt = ast.Assign([names(results, ast.Store())], load(done)) if results else ast.Pass()
    plain = copy.copy(loop)
    plain.iter = ast.Call(load("range"), [ast.Starred(load(rounds), ast.Load())], [])
    made: list[ast.stmt] = [
        ast.Assign([ast.Name(rounds, ast.Store())], ast.Tuple(loop.iter.args, ast.Load())),
        round_,
        ast.Assign([ast.Name(done, ast.Store())], call),
        ast.If(ast.Compare(load(done), [ast.IsNot()], [ast.Constant(None)]), [taken], [plain]),
    ]
    for statement in made:
        ast.fix_missing_locations(ast.copy_location(statement, loop))
    return made


def _arguments(names: list[str]) -> ast.arguments:
    return ast.arguments([], [ast.arg(name) for name in names], None, [], [], None, [])


# ---- files ---------------------------------------------------------------------------------------------------


class _Rewriter(ast.NodeTransformer):
    """Rewrites every loop that can be; knows what stands behind it."""

    def __init__(self) -> None:
        self.count = 0
        self._rests: list[list[ast.stmt]] = []

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        outer, self._rests = self._rests, []
        made = self.generic_visit(node)
        self._rests = outer
        return made

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        for name, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                setattr(node, name, self._block(node, value))
            elif isinstance(value, list):
                for item in value:
                    if isinstance(item, ast.AST):
                        self.visit(item)
        return node

    def _block(self, owner: ast.AST, statements: list[ast.stmt]) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        repeats = [statements] if isinstance(owner, (ast.For, ast.While)) else []
        for number, statement in enumerate(statements):
            self._rests = [statements[number + 1 :], *repeats, *self._rests]
            try:
                made += self._statement(statement)
            finally:
                self._rests = self._rests[1 + len(repeats) :]
        return made

    def _statement(self, statement: ast.stmt) -> list[ast.stmt]:
        if isinstance(statement, ast.For):
            try:
                made = rewritten(statement, self._rests)
            except NotRewritten:
                pass
            else:
                self.count += 1
                return made
        return [self.visit(statement)]


@cache
def rewritten_codes(file: str) -> dict[tuple[str, int], types.CodeType]:
    """The functions of a file that have such a loop, by name and first line."""
    try:
        with open(file, "rb") as source:
            text = source.read()
        if b" in range(" not in text:
            return {}
        tree = ast.parse(text)
        rewriter = _Rewriter()
        rewriter.visit(tree)
        if rewriter.count == 0:
            return {}
        whole = compile(tree, file, "exec", dont_inherit=True)
        before = compile(text, file, "exec", dont_inherit=True)
    except (OSError, SyntaxError, ValueError):
        return {}
    originals = {(code.co_qualname, code.co_firstlineno): code for code in _codes(before)}
    changed = {}
    for code in _codes(whole):
        key = (code.co_qualname, code.co_firstlineno)
        original = originals.get(key)
        if (
            original is not None
            and original.co_code != code.co_code
            and original.co_freevars == code.co_freevars
        ):
            changed[key] = code
    return changed


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield constant
            yield from _codes(constant)
