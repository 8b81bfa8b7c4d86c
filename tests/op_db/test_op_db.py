"""A rotating sample of torch's databases: other calls and dtypes at every commit, all of them in `make op-db`."""

from __future__ import annotations

import inspect
import os
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
import torch.utils._pytree as pytree
from zoo.sampling import commit

from pycandle.recording.graph.graph_writer import op_name
from pycandle.recording.graph.program import build_program, is_size, producer
from pycandle.recording.inputs import gather_inputs
from pycandle.recording.tracing.exporting import export_model

from .errors import run_error, run_errors
from .factors import view_of
from .judging import Judge, OpenPositions, Precision, size_of
from .modules import modules, run_module
from .randomness import random_problem
from .running import Outcome, quiet_torch, run_call, run_values
from .samples import Call, dtypes_of, entries
from .tracing import as_recorded, outside_recorded_form, trace

TURN = int(os.environ.get("PYCANDLE_TURN", int(commit()[:8], 16)))
SHARDS = 8  # of the entries, so that processes can share the work
TABLE = Path(__file__).parents[2] / "docs" / "op-db.md"


@pytest.fixture(autouse=True, scope="module")
def recorded_form():
    quiet_torch()
    with as_recorded():
        yield


def shard(names: list[str], number: int) -> list[str]:
    return names[number::SHARDS]


def known_to_pass() -> set[str]:
    """The entries of which the last whole run says that all their samples pass."""
    listed = TABLE.read_text().split("## Pass whole")[1].split("\n\n")[1]
    return set(listed.rstrip(".").split(", "))


def news(outcomes: list[Outcome]) -> str:
    known = known_to_pass()
    assert len(known) > 300
    failed = [o for o in outcomes if o.touches and o.entry in known]
    return "\n".join(f"{o.entry} {o.dtype}({f['call']}): {f['message']}" for o in failed for f in o.failures)


@pytest.mark.parametrize("number", range(SHARDS))
def test_sample_inputs_agree_with_torch(number: int) -> None:
    outcomes = []
    for name in shard(list(entries()), number):
        dtypes = dtypes_of(entries()[name])
        if dtypes:
            outcomes.append(run_values(name, dtypes[TURN % len(dtypes)], limit=1, turn=TURN))
    assert sum(outcome.passed for outcome in outcomes) > 20
    assert not news(outcomes), f"turn {TURN}\n{news(outcomes)}"


@pytest.mark.parametrize("number", range(SHARDS))
def test_error_inputs_are_refused(number: int) -> None:
    names = [name for name, op in entries().items() if op.error_inputs_func is not None]
    outcomes = [run_errors(name, limit=2, turn=TURN) for name in shard(names, number)]
    assert sum(outcome.passed for outcome in outcomes) > 10
    assert not news(outcomes), f"turn {TURN}\n{news(outcomes)}"


@pytest.mark.parametrize("number", range(2))
def test_modules_agree_with_torch(number: int) -> None:
    names = list(modules())[(TURN + number) % 4 :: 4]
    outcomes = [run_module(name, limit=1, turn=TURN) for name in names]
    assert sum(outcome.passed for outcome in outcomes) > 10
    assert not news(outcomes), f"turn {TURN}\n{news(outcomes)}"


@pytest.mark.parametrize("number", range(2))
def test_sample_inputs_agree_with_torch_on_the_cpu_backend(number: int) -> None:
    """What has kernels is f32; a sixth of the entries at each commit."""
    names = [name for name, op in entries().items() if "f32" in dtypes_of(op)]
    chosen = names[(TURN % 6) * 2 + number :: 12]
    outcomes = [run_values(name, "f32", limit=2, turn=TURN, backend="cpu") for name in chosen]
    assert sum(outcome.passed for outcome in outcomes) > 20
    assert not news(outcomes), f"turn {TURN}\n{news(outcomes)}"


# ---- the suite itself


class Function(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, tensors):
        return self.function(*tensors)


def batch_norm(x, mean, variance):
    return F.batch_norm(x, mean, variance, training=False)


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (lambda x: x.reshape(6, 2).t().contiguous(), [(3, 4)]),
        (lambda x: F.dropout(x.chunk(2)[0], 0.5, False), [(4, 4)]),
        (batch_norm, [(2, 3, 4), (3,), (3,)]),
        (lambda x, w: F.linear(F.layer_norm(x, (4,)), w).softmax(-1), [(3, 4), (5, 4)]),
        (lambda x: x[:, [0, 2]].add_(1).relu_(), [(3, 4)]),
        (lambda x: torch.einsum("ij,kj->ik", x, x).tensor_split(2), [(3, 4)]),
        (F.scaled_dot_product_attention, [(2, 3, 4), (2, 3, 4), (2, 3, 4)]),
        (lambda x: x.nonzero(), [(3, 4)]),
        (lambda x: F.interpolate(F.pad(x, (1, 1)), scale_factor=2.0), [(1, 2, 5)]),
    ],
)
def test_a_trace_is_what_the_recorder_writes(function, shapes) -> None:
    tensors = [torch.rand(shape) for shape in shapes]
    short = trace(lambda *given: list(pytree.tree_leaves(function(*given))), tensors)
    assert written(short.graph.graph) == written(build_program(exported(function, tensors), {}).graph)


def exported(function, tensors):
    signature = inspect.Signature([inspect.Parameter("tensors", inspect.Parameter.POSITIONAL_OR_KEYWORD)])
    with outside_recorded_form():
        return export_model(Function(function), gather_inputs(signature, (tensors,), {}), [], {})


def test_a_trace_after_an_export_is_still_right() -> None:
    """torch.export leaves the recorded form behind; a count that depends on data was 0 after it."""
    trace(lambda x: [torch.cov(x)], [torch.rand(3, 4)])  # only torch.export takes it
    counted = trace(lambda x: list(x.nonzero(as_tuple=True)), [torch.rand(3, 4)])
    assert not isinstance(counted.outputs[0].meta["val"].shape[0], int)


def written(graph: torch.fx.Graph) -> list[str]:
    nodes = [n for n in graph.nodes if n.op == "call_function" and not is_size(n) and producer(n)[0] is n]
    return [op_name(n.target) for n in nodes]


def judged(function, tensors, ours) -> list[str]:
    compute = lambda given: [function(*given)]  # noqa: E731
    return Judge(Precision(compute, compute, compute), tensors, compute(tensors)).problems([ours], False)


def test_a_wrong_result_is_noticed() -> None:
    x = torch.tensor([1.0, -2.0, 30.0])
    right = x.exp()
    assert not judged(torch.exp, [x], right)
    assert not judged(torch.exp, [x], right * (1 + 1e-7))
    assert judged(torch.exp, [x], right * (1 + 1e-5))
    assert judged(torch.exp, [x], torch.tensor([right[0], right[1] * 1.01, right[2]]))
    assert judged(torch.exp, [x], right.double())
    assert judged(torch.exp, [x], right[:, None])
    assert judged(torch.exp, [x], torch.tensor([float("nan"), right[1], right[2]]))
    assert judged(torch.exp, [torch.tensor([1e4])], torch.tensor([3e38]))
    assert judged(torch.neg, [torch.tensor([1, 2])], torch.tensor([-1, -3]))
    assert judged(torch.conj_physical, [torch.tensor([1 + 1j])], torch.tensor([1 + 1j]))


def test_what_torch_rounds_away_is_not_asked_for() -> None:
    """The variance of nearly equal numbers: torch's own f32 result is off, and another order is off elsewhere."""
    x = torch.full((64,), 1000.0) + torch.arange(64) * 1e-3
    other_order = (x - x.sum() / 64).square().sum() / 63
    assert not judged(torch.var, [x], other_order)


def judged_as(overload: str, function, tensors, ours, view=None) -> list[str]:
    compute = lambda given: list(pytree.tree_leaves(function(*given)))  # noqa: E731
    judge = Judge(
        Precision(compute, compute, compute), tensors, compute(tensors), size=size_of([overload]), view=view
    )
    return judge.problems(ours, False)


def test_a_transform_may_round_relative_to_its_whole_but_no_number_may_be_wrong() -> None:
    x = torch.randn(64, generator=torch.Generator().manual_seed(0))
    right = torch.fft.rfft(x)
    assert right.abs().min() < 0.5 * right.abs().max()

    def problems(ours):
        return judged_as("aten.fft_rfft.default", torch.fft.rfft, [x], [ours])

    assert not problems(right + 1e-7 * right.abs().max())  # a number that is nearly 0 may be off by this much
    assert problems(right * (1 + 1e-5))  # another constant
    assert problems(right[[1, 0, *range(2, 33)]])  # two numbers swapped
    assert problems(torch.cat([right[:5], right[5:6].conj(), right[6:]]))
    assert problems(right * (torch.arange(33) != 7))  # one left out


def test_a_cubic_interpolation_may_round_its_positions_but_not_be_another_one() -> None:
    x = torch.randn(2, 3, 4, 5, generator=torch.Generator().manual_seed(0))

    def resized(x, mode="bicubic", align_corners=True):
        return torch.nn.functional.interpolate(x, (5, 6), mode=mode, align_corners=align_corners)

    def problems(ours):
        return judged_as("aten.upsample_bicubic2d.vec", resized, [x], [ours])

    right = resized(x)
    assert not problems(right + 1e-6)
    assert problems(right * (1 + 2e-5))  # another constant
    assert (
        problems(right.flip(-1))
        and problems(resized(x, "bilinear"))
        and problems(resized(x, align_corners=False))
    )


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 4), (2, 4, 3)])
def test_singular_vectors_may_turn_but_not_miss_the_matrix(shape) -> None:
    x = torch.randn(shape, dtype=torch.complex64, generator=torch.Generator().manual_seed(0))
    u, s, vh = torch.linalg.svd(x)
    phase = torch.exp(1j * torch.arange(s.shape[-1])).to(torch.complex64)
    count = s.shape[-1]

    def problems(u, s, vh):
        overload = "aten.linalg_svd.default"
        return judged_as(overload, torch.linalg.svd, [x], [u, s, vh], view_of([overload], 3))

    def turned(u, vh):
        columns = torch.cat([u[..., :count] * phase, u[..., count:]], -1)
        rows = torch.cat([vh[..., :count, :] * phase.conj()[:, None], vh[..., count:, :]], -2)
        return columns, rows

    columns, rows = turned(u, vh)
    assert not problems(u, s, vh)
    assert not problems(columns, s, rows)
    assert problems(columns, s, vh)  # turned on one side alone
    assert problems(u, s * (1 + 1e-5), vh)
    assert problems(u * (1 + 1e-5), s, vh)
    assert problems(u, s, vh.conj())
    assert problems(u.flip(-1), s, vh.flip(-2))


def test_eigenvectors_may_turn_but_not_miss_the_matrix() -> None:
    x = torch.randn(4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    values, vectors = torch.linalg.eigh(x)

    def problems(values, vectors):
        overload = "aten.linalg_eigh.default"
        return judged_as(overload, torch.linalg.eigh, [x], [values, vectors], view_of([overload], 2))

    assert not problems(values, vectors)
    assert not problems(values, vectors * torch.tensor([1.0, -1, -1, 1]))
    assert problems(values, vectors * (1 + 1e-12))
    assert problems(values.flip(-1), vectors.flip(-1))
    assert problems(values, vectors.flip(-1))


def test_integers_are_judged_by_what_they_are_in_double_precision() -> None:
    """torch's f32 result for the integer 8 is off by 2 units, and ours need not be off by the same."""
    call = Call.of(torch.special.i1, (torch.tensor([8, 3, -8]),), {})
    expected, exact = call.tensors_on(call.tensors), call.wide().tensors_on(call.tensors)
    assert exact[0].dtype == torch.float64
    judge = Judge(
        Precision(call.tensors_on, call.wide().tensors_on, call.narrow().tensors_on), call.tensors, expected
    )
    assert not judge.problems([exact[0].float()], False)
    assert judge.problems([exact[0].float() * (1 + 1e-5)], False)


def test_double_precision_is_judged_by_single_precision_nearby() -> None:
    """x - tanh(x) cancels for small x: torch is off by u |x|, by luck not everywhere."""
    x = torch.linspace(-0.6, 0.6, 40, dtype=torch.float64)
    call = Call.of(F.tanhshrink, (x,), {})
    expected = call.tensors_on([x])
    judge = Judge(Precision(call.tensors_on, call.wide().tensors_on, call.narrow().tensors_on), [x], expected)
    assert not judge.problems([expected[0] + 1e-16 * x], False)
    assert judge.problems([expected[0] * (1 + 1e-13)], False)
    assert judge.problems([expected[0].roll(1)], False)


def test_what_overflowed_on_the_way_may_be_right_here_but_not_otherwise() -> None:
    x = torch.tensor([[9.0, 8.0], [7.0, 9.0]]).half()
    infinity, nan = float("inf"), float("nan")
    broken = lambda x: torch.full_like(x, nan) if x.dtype == torch.half else x.exp() ** 2  # noqa: E731
    right = (x.double().exp() ** 2).half()
    assert right.isinf().all()
    assert not judged(broken, [x], right)
    assert not judged(broken, [x], torch.full_like(x, nan))
    assert judged(broken, [x], -right)
    assert judged(broken, [x], torch.zeros_like(x))
    assert judged(torch.exp, [x * infinity], torch.full_like(x, nan))


def test_a_window_of_one_point_is_compared_by_value() -> None:
    call = Call.of(torch.signal.windows.hann, (1,), {})
    assert not trace(lambda *given: call.tensors_on(given), call.tensors).has_free_values
    nothing = Call.of(torch.signal.windows.hann, (0,), {})
    assert not trace(lambda *given: nothing.tensors_on(given), nothing.tensors).has_free_values
    free = Call.of(torch.empty, (3,), {})
    assert trace(lambda *given: free.tensors_on(given), free.tensors).has_free_values


def test_ties_may_be_broken_either_way_but_not_wrongly() -> None:
    x = torch.tensor([2, 1, 2, 1])
    sort = lambda given: list(torch.sort(given[0], stable=True))  # noqa: E731

    def problems(positions: list[int]) -> list[str]:
        judge = Judge(Precision(sort, sort, sort), [x], sort([x]), OpenPositions(1, x, 0))
        return judge.problems([torch.tensor([1, 1, 2, 2]), torch.tensor(positions)], False)

    assert not problems([1, 3, 0, 2])
    assert not problems([3, 1, 0, 2])
    assert problems([1, 1, 0, 2])
    assert problems([1, 0, 3, 2])


def test_a_call_with_a_wrong_result_or_a_gap_fails(monkeypatch) -> None:
    outcome = Outcome("values", "none")
    call = Call.of(torch.cos, (torch.rand(3),), {})
    run_call(call, outcome)
    assert (outcome.calls, outcome.passed) == (1, 1)
    from . import running

    monkeypatch.setattr(running, "run", lambda traced, backend: [torch.zeros(3)])
    run_call(call, outcome)
    monkeypatch.setattr(running, "mapped", lambda: frozenset({"aten.neg.default"}))
    run_call(call, outcome)
    assert (outcome.calls, outcome.passed) == (3, 1)
    assert "not in the catalogue: aten.cos.default" in outcome.failures[1]["message"]


def test_an_accepted_error_fails(monkeypatch) -> None:
    outcome = Outcome("errors", "none")
    call = Call.of(torch.add, (torch.rand(3), torch.rand(4)), {})
    run_error(call, RuntimeError, outcome)
    assert (outcome.calls, outcome.passed) == (1, 1)
    from . import errors

    monkeypatch.setattr(errors, "run_model", lambda model, tensors: [])
    monkeypatch.setattr(errors._core, "load_call", lambda text, backend: None)
    run_error(call, RuntimeError, outcome)
    assert (outcome.calls, outcome.passed) == (2, 1)


def test_random_results_that_cannot_be_are_noticed() -> None:
    x = torch.tensor([1.0, -2.0, 3.0])
    dropout = {"input": x, "p": 0.5, "train": True}
    assert not random_problem("native_dropout", dropout, [torch.tensor([2.0, 0.0, 6.0])])
    assert random_problem("native_dropout", dropout, [torch.tensor([1.0, 0.0, 6.0])])
    assert random_problem(
        "native_dropout", dropout, [torch.tensor([2.0, 0.0, 6.0]), torch.tensor([True, True, True])]
    )
    assert random_problem("native_dropout", {**dropout, "p": 1.0}, [torch.tensor([2.0, 0.0, 6.0])])
    rrelu = {"self": x, "lower": 0.1, "upper": 0.5}
    assert not random_problem("rrelu", rrelu, [torch.tensor([1.0, -0.5, 3.0])])
    assert random_problem("rrelu", rrelu, [torch.tensor([1.0, -1.5, 3.0])])
    assert random_problem("bernoulli", {}, [torch.tensor([0.0, 0.5])])
    assert random_problem("randint", {"high": 3}, [torch.tensor([0, 3])])
    weights = {"self": torch.tensor([1.0, 0.0, 1.0]), "replacement": False}
    assert not random_problem("multinomial", weights, [torch.tensor([2, 0])])
    assert random_problem("multinomial", weights, [torch.tensor([2, 2])])
    assert random_problem("multinomial", weights, [torch.tensor([1, 0])])


def test_what_only_the_recorder_can_trace_is_run_and_what_it_refuses_is_listed(monkeypatch) -> None:
    from . import tracing

    def cannot(*_):
        raise RuntimeError

    outcome = Outcome("values", "none")
    call = Call.of(torch.cos, (torch.rand(3),), {})
    monkeypatch.setattr(tracing, "_traced", cannot)
    run_call(call, outcome)
    assert (outcome.calls, outcome.passed, outcome.untraceable) == (1, 1, [])
    run_call(Call.of(torch.linalg.lstsq, (torch.rand(3, 3), torch.rand(3, 1)), {}), outcome)
    assert outcome.calls == 1 and "aten.linalg_lstsq" in outcome.untraceable[0]


@pytest.mark.parametrize("function", [torch.equal, torch.allclose])
def test_a_bool_that_depends_on_data_is_compared(function, monkeypatch) -> None:
    outcome = Outcome("values", "none")
    x = torch.rand(3)
    for other in (x.clone(), x + 1):
        run_call(Call.of(function, (x, other), {}), outcome)
    assert (outcome.calls, outcome.passed, outcome.untraceable) == (2, 2, []), outcome.failures
    from . import running

    monkeypatch.setattr(running, "run", lambda traced, backend: [torch.tensor(True)])
    run_call(Call.of(function, (x, x + 1), {}), outcome)
    assert (outcome.calls, outcome.passed) == (3, 2)


def test_an_entry_that_torch_refuses_whole_does_not_pass() -> None:
    from .report import rows

    refused = Outcome("modules", "nn.CTCLoss", "f32", touches=True, untraceable=["aten._ctc_loss.default"])
    ran = Outcome("modules", "nn.ReLU", "f32", touches=True, calls=2, passed=2)
    assert rows([refused, ran]) == [("modules", 1, 1, 2, 2, 0)]
