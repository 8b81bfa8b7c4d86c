"""Every form of model and input that the recorder takes, and what the manifest then says."""

import dataclasses
import json
from typing import NamedTuple

import pytest
import torch
import torch.nn.functional as F
from recording_checks import load_checked, read_tensors
from torch import nn

from pycandle.errors import RecordingError, UsageError
from pycandle.recorder import GoldenRecorder

torch.set_num_threads(1)


@pytest.fixture
def record(tmp_path):
    """Records a model, checks the files, and gives (manifest, goldens)."""

    def run(model, *args, options=None, **kwargs):
        recorder = GoldenRecorder(tmp_path, progress=lambda text: None, **(options or {}))
        recorder.record(model.eval(), *args, **kwargs)
        run.recorder = recorder
        return load_checked(recorder.save("m").manifest)

    return run


def names(entries) -> list[str]:
    return [entry["name"] for entry in entries]


def ops(manifest) -> list[str]:
    return [node["op"] for node in manifest["nodes"]]


# ---- inputs and outputs ---------------------------------------------------------------------------------------


class Calls(nn.Module):
    """A model made of a function."""

    def __init__(self, function):
        super().__init__()
        self.forward = function


class Keywords(nn.Module):
    def forward(self, x, *, scale, shift=None):
        y = x * scale
        return y if shift is None else y + shift


def test_keyword_arguments_keep_their_names(record):
    manifest, goldens = record(Keywords(), torch.randn(2, 3), scale=torch.randn(3), shift=torch.randn(2, 3))
    assert names(manifest["inputs"]) == ["x", "scale", "shift"]
    assert set(goldens) >= {"input:x", "input:scale", "input:shift", "output:output"}


class Nested(nn.Module):
    def forward(self, pair, table):
        a, b = pair
        return {"sum": a + table["left"], "rest": [b * 2, (table["right"][0], None, 7)]}


def test_nested_inputs_and_outputs(record):
    x = torch.randn(2, 3)
    manifest, _ = record(Nested(), (x, x + 1), {"left": x, "right": [x * 2]})
    assert names(manifest["inputs"]) == ["pair.0", "pair.1", "table.left", "table.right.0"]
    assert names(manifest["outputs"]) == ["output.rest.0", "output.rest.1.0", "output.sum"] or names(
        manifest["outputs"]
    ) == ["output.sum", "output.rest.0", "output.rest.1.0"]
    rest = manifest["output_tree"]["items"][manifest["output_tree"]["keys"].index("rest")]
    assert [item["kind"] for item in rest["items"][1]["items"]] == ["tensor", "literal", "literal"]
    assert rest["items"][1]["items"][2]["value"] == 7


@dataclasses.dataclass
class Pair:
    first: torch.Tensor
    second: torch.Tensor


class TakesDataclass(nn.Module):
    def forward(self, pair):
        return Pair(pair.second, pair.first + 1)


def test_dataclasses_are_looked_into(record):
    manifest, _ = record(TakesDataclass(), Pair(torch.randn(2, 3), torch.randn(2, 3)))
    assert names(manifest["inputs"]) == ["pair.first", "pair.second"]
    assert names(manifest["outputs"]) == ["output.first", "output.second"]
    assert manifest["output_tree"]["kind"] == "dataclass"
    assert manifest["outputs"][0]["value"] == manifest["inputs"][1]["value"]


class Point(NamedTuple):
    x: torch.Tensor
    y: torch.Tensor


def test_named_tuples_are_tuples(record):
    manifest, _ = record(Calls(lambda x: Point(x + 1, x - 1)), torch.randn(2, 3))
    assert names(manifest["outputs"]) == ["output.x", "output.y"]


class VarArgs(nn.Module):
    def forward(self, *tensors, **named):
        return sum(tensors) + named["extra"]


def test_star_arguments(record):
    x = torch.randn(2, 3)
    manifest, _ = record(VarArgs(), x, x * 2, extra=x)
    assert names(manifest["inputs"]) == ["tensors.0", "tensors.1", "extra"]
    assert [s["name"] for s in manifest["symbols"]] == ["s0"]


def test_integer_and_bool_inputs(record):
    model = Calls(lambda ids, keep: torch.where(keep, ids, 0) + 1)
    manifest, _ = record(model, torch.tensor([[3, 5], [9, 4]]), torch.tensor([[True, False], [False, True]]))
    ids, keep = manifest["inputs"]
    assert (ids["dtype"], ids["range"]) == ("i64", [3, 9])
    assert keep["dtype"] == "bool" and "range" not in keep


def test_unused_inputs_are_said_to_be(record):
    manifest, goldens = record(Calls(lambda x, unused: x + 1), torch.randn(2, 3), torch.randn(4))
    assert [entry["used"] for entry in manifest["inputs"]] == [True, False]
    assert "input:unused" in goldens


def test_an_input_returned_as_output_names_its_value(record):
    manifest, goldens = record(Calls(lambda x: (x, x + 1, x)), torch.randn(2, 3))
    assert [entry["value"] for entry in manifest["outputs"]] == [0, 1, 0]
    assert torch.equal(goldens["output:output.0"], goldens["input:x"])
    assert torch.equal(goldens["output:output.2"], goldens["input:x"])


def test_python_numbers_are_baked_in_and_noted(record):
    manifest, _ = record(
        Calls(lambda x, n, flag=False, name="a": x * n), torch.randn(2, 3), 3, flag=True, name="b"
    )
    assert names(manifest["inputs"]) == ["x"]
    assert sum("baked in" in note for note in manifest["notes"]) == 3


def test_none_among_the_inputs(record):
    manifest, _ = record(Calls(lambda x, mask=None: x + 1), torch.randn(2, 3), None)
    assert names(manifest["inputs"]) == ["x"]


# ---- parameters, buffers, constants ---------------------------------------------------------------------------


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(10, 4)
        self.head = nn.Linear(4, 10, bias=False)
        self.head.weight = self.embed.weight
        self.spare = nn.Linear(4, 4)

    def forward(self, ids):
        return self.head(self.embed(ids))


def test_tied_weights_are_one_parameter_with_an_alias(record):
    manifest, _ = record(Tied(), torch.randint(0, 10, (2, 3)))
    by_name = {p["name"]: p for p in manifest["parameters"]}
    assert by_name["embed.weight"]["aliases"] == ["head.weight"]
    assert "head.weight" not in by_name
    assert by_name["spare.weight"]["value"] is None


class Buffers(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("kept", torch.randn(3))
        self.register_buffer("table", torch.randn(3), persistent=False)
        self.plain = torch.randn(3)

    def forward(self, x):
        return x * self.kept + self.table + self.plain + torch.tensor([1.0, 2.0, 3.0])


def test_buffers_and_constants_have_their_kind(record):
    manifest, _ = record(Buffers(), torch.randn(2, 3))
    by_name = {p["name"]: (p["kind"], p["persistent"]) for p in manifest["parameters"]}
    assert by_name["kept"] == ("buffer", True)
    assert by_name["table"] == ("buffer", False)
    assert sorted(kind for kind, _ in by_name.values()) == ["buffer", "buffer", "constant", "constant"]
    assert all(p["file"] for p in manifest["parameters"])


class Accumulates(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x):
        self.total.add_(x.sum(0))
        return x + self.total


def test_a_mutated_buffer_is_a_state(record):
    model = Accumulates()
    manifest, _ = record(model, torch.randn(2, 3))
    (state,) = manifest["states"]
    assert state["name"] == "total" and state["updated"] != state["value"]
    assert not manifest["parameters"]
    assert torch.equal(model.total, torch.zeros(3)), "recording leaves the model as it was"


class WritesItsInput(nn.Module):
    def forward(self, x):
        x.add_(1)
        return x * 2


def test_a_model_that_writes_its_input_is_noted(record):
    x = torch.randn(2, 3)
    before = x.clone()
    manifest, _ = record(WritesItsInput(), x)
    assert torch.equal(x, before)
    assert any("writes into its input x" in note for note in manifest["notes"])


class Lazy(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.LazyLinear(4)

    def forward(self, x):
        return self.linear(x)


def test_lazy_modules_are_materialised(record):
    manifest, _ = record(Lazy(), torch.randn(2, 3))
    assert manifest["parameters"][0]["shape"] == [4, 3]


# ---- graphs ---------------------------------------------------------------------------------------------------


class InPlaceViews(nn.Module):
    def forward(self, x):
        y = x * 2
        y[:, 0].add_(1)
        y.view(-1)[3:].mul_(0.5)
        y[:, 1:].relu_()
        return y


def test_in_place_writes_through_views_become_functional(record):
    manifest, _ = record(InPlaceViews(), torch.randn(2, 3))
    assert not [op for op in ops(manifest) if op.split(".")[1].endswith("_") and not op.startswith("aten.__")]


class Modes(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        with torch.enable_grad():
            x = self.linear(x)
        with torch.no_grad():
            x = x + 1
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.linear(x)
        return y, x


def test_grad_mode_and_autocast_regions_are_inlined(record):
    manifest, _ = record(Modes(), torch.randn(2, 4))
    assert not [op for op in ops(manifest) if op.startswith("higher_order")]
    assert [o["dtype"] for o in manifest["outputs"]] == ["bf16", "f32"]
    casts = [node for node in manifest["nodes"] if node["op"] == "aten._to_copy.default"]
    lines = manifest["files_table"][casts[0]["file"]]["lines"]
    assert lines[str(casts[0]["line"])] == "y = self.linear(x)"
    assert [c["call"] for c in manifest["module_calls"] if c["path"] == "linear"] == [0, 1]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_models(record, dtype):
    model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8)).to(dtype)
    manifest, goldens = record(model, torch.randn(2, 4).to(dtype))
    assert {p["dtype"] for p in manifest["parameters"]} == {"f16" if dtype is torch.float16 else "bf16"}
    assert goldens["output:output"].dtype == dtype


class ManyCalls(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.same = self.layer

    def forward(self, x):
        for _ in range(3):
            x = self.layer(x)
        return self.same(x)


def test_a_module_called_many_times_has_numbered_calls(record):
    manifest, goldens = record(ManyCalls(), torch.randn(2, 4))
    assert [(c["path"], c["call"]) for c in manifest["module_calls"][1:]] == [("layer", i) for i in range(4)]
    ids = {tap["id"]: tap["key"] for tap in manifest["taps"]}
    assert ids["layer@3/output"] == ids["@0/output"] == "output:output"
    assert {"layer@0/output", "layer@1/output", "layer@2/output"} <= set(goldens)


class Several(nn.Module):
    def forward(self, x):
        a, b, c = x.split([1, 2, 3], dim=1)
        values, indices = c.topk(2)
        return torch.cat([a, b, values], 1), indices


def test_nodes_with_several_results(record):
    manifest, _ = record(Several(), torch.randn(2, 6))
    split = next(node for node in manifest["nodes"] if "split" in node["op"])
    assert [r["shape"] for r in split["results"]] == [["s0", 1], ["s0", 2], ["s0", 3]]
    assert not [op for op in ops(manifest) if "getitem" in op]


class Conditional(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: self.linear(x), lambda x: x * 2, (x,))


def test_cond_has_subgraphs(record):
    manifest, _ = record(Conditional(), torch.randn(2, 4))
    (cond,) = [node for node in manifest["nodes"] if node["op"] == "higher_order.cond"]
    arguments = dict(cond["args"])
    assert arguments["true_fn"] == {"graph": 0} and arguments["false_fn"] == {"graph": 1}
    assert [node["op"] for node in manifest["graphs"][0]["nodes"]] == ["aten.linear.default"]
    assert len(manifest["graphs"][0]["inputs"]) == len(arguments["operands"])


class ConditionalOnSize(nn.Module):
    def forward(self, x):
        n = x.shape[0]
        return torch.cond(
            x.sum() > 0, lambda x: x.reshape(n, 2, 2) + n, lambda x: x.reshape(n, 2, 2) * 2, (x,)
        )


def test_sizes_inside_a_branch_are_dim_texts(record):
    manifest, _ = record(ConditionalOnSize(), torch.randn(3, 4))
    (cond,) = [node for node in manifest["nodes"] if node["op"] == "higher_order.cond"]
    assert dict(cond["args"])["operands"] == [{"v": 0}]
    assert manifest["graphs"][0]["nodes"][0]["results"][0]["shape"] == ["s0", 2, 2]


class ConditionalHalves(nn.Module):
    def forward(self, x):
        n = x.shape[0]
        return torch.cond(
            x.sum() > 0, lambda x: x.reshape(n, 2, -1) + n, lambda x: x.reshape(n, 2, -1) * 2, (x,)
        )


def test_shapes_that_the_process_met_before_have_no_say(record):
    for width in (6, 8):  # torch.cond now takes the second size for a dynamic one
        torch.cond(torch.tensor(True), lambda x: x + 1, lambda x: x * 2, (torch.randn(3, width),))
    manifest, _ = record(ConditionalHalves(), torch.randn(3, 4))
    assert manifest["graphs"][0]["nodes"][0]["results"][0]["shape"] == ["s0", 2, 2]


class LoopOverNumber(nn.Module):
    def forward(self, x):
        return torch._higher_order_ops.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (0, x))[1]


def test_a_number_carried_by_a_loop_is_refused(record):
    with pytest.raises(RecordingError, match="carries a Python number"):
        record(LoopOverNumber(), torch.randn(2, 4))


class Loop(nn.Module):
    def forward(self, x):
        def more(i, x):
            return i < 3

        def step(i, x):
            return i + 1, x * 2

        return torch._higher_order_ops.while_loop(more, step, (torch.tensor(0), x))[1]


def test_while_loop_has_subgraphs(record):
    manifest, _ = record(Loop(), torch.randn(2, 4))
    (loop,) = [node for node in manifest["nodes"] if node["op"] == "higher_order.while_loop"]
    assert len(manifest["graphs"]) == 2 and loop["results"][1]["shape"] == ["s0", 4]


class Scan(nn.Module):
    def forward(self, x):
        from torch._higher_order_ops.scan import scan

        def step(carry, row):
            total = carry + row
            return total, total * 2

        return scan(step, torch.zeros(4), x, dim=0)


def test_scan_has_a_subgraph(record):
    manifest, _ = record(Scan(), torch.randn(5, 4), options={"dynamic": False})
    assert "higher_order.scan" in ops(manifest) and manifest["graphs"]


def test_recurrent_layers_are_one_node_each(record):
    model = nn.LSTM(4, 6, num_layers=2, bidirectional=True, proj_size=3)
    manifest, _ = record(model, torch.randn(5, 2, 4), options={"dynamic": {"input": {0: "seq", 1: "batch"}}})
    (lstm,) = [node for node in manifest["nodes"] if node["op"] == "pycandle.lstm.default"]
    assert [name for name, _ in lstm["args"]] == [
        "input", "hx", "params", "has_biases", "num_layers", "dropout", "train", "bidirectional", "batch_first"
    ]  # fmt: skip
    assert [r["shape"] for r in lstm["results"]] == [["s0", "s1", 6], [4, "s1", 3], [4, "s1", 6]]


def test_packed_sequences_are_refused_with_a_reason(record):
    lstm = nn.LSTM(4, 6)

    class Packs(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = lstm

        def forward(self, x):
            packed = nn.utils.rnn.pack_padded_sequence(x, [5, 3])
            return self.lstm(packed)[1][0]

    with pytest.raises(RecordingError):
        record(Packs(), torch.randn(5, 2, 4))


def test_arguments_are_complete_and_typed(record):
    def forward(q, x):
        y = F.scaled_dot_product_attention(q, q, q, scale=0.3)
        z = F.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=True)
        return y, z, x.clamp(min=float("-inf"), max=2)

    manifest, _ = record(Calls(forward), torch.randn(2, 2, 3, 4), torch.randn(2, 3, 4, 4))
    attention = next(node for node in manifest["nodes"] if "scaled_dot" in node["op"])
    assert dict(attention["args"])["scale"] == {"float": 0.3}
    assert dict(attention["args"])["dropout_p"] == {"float": 0.0}
    assert dict(attention["args"])["is_causal"] is False
    clamp = next(node for node in manifest["nodes"] if node["op"] == "aten.clamp.default")
    assert dict(clamp["args"]) == {"self": {"v": 1}, "min": {"float": "-inf"}, "max": 2}


def test_places_and_names(record):
    class Named(nn.Module):
        def forward(self, x):
            doubled = x * 2
            return helper(doubled)

    def helper(y):
        inner = y + 1
        return inner.relu()

    manifest, _ = record(Named(), torch.randn(2, 3))
    assert [node["assigned_to"] for node in manifest["nodes"]] == ["doubled", "inner", None]
    lines = manifest["files_table"][0]["lines"]
    assert manifest["files_table"][0]["path"] == "test_recorder.py"
    assert [lines[str(node["line"])] for node in manifest["nodes"]] == [
        "doubled = x * 2", "inner = y + 1", "return inner.relu()"
    ]  # fmt: skip


# ---- dynamic axes ---------------------------------------------------------------------------------------------


def test_equal_sizes_of_different_inputs_are_one_symbol(record):
    manifest, _ = record(Calls(lambda x, y: (x + 1, y.sum(1))), torch.randn(4, 3), torch.randn(4, 5))
    assert [entry["shape"] for entry in manifest["inputs"]] == [["s0", 3], ["s0", 5]]


@pytest.mark.parametrize(
    ("dynamic", "shape"),
    [
        (None, ["s0", "s1"]),
        (True, ["s0", "s1"]),
        ("batch", ["s0", 5]),
        (False, [3, 5]),
        ("none", [3, 5]),
        ({"ids": [1]}, [3, "s0"]),
        ({"ids": {0: "rows"}}, ["s0", 5]),
    ],
)
def test_dynamic_says_which_axes_stay_open(record, dynamic, shape):
    manifest, _ = record(
        Calls(lambda ids: ids + 1), torch.randint(0, 9, (3, 5)), options={"dynamic": dynamic}
    )
    assert manifest["inputs"][0]["shape"] == shape


@pytest.mark.parametrize("dynamic", ["all", {"nobody": [0]}, {"ids": [7]}, {"ids": 3}])
def test_a_wrong_dynamic_is_a_usage_error(record, dynamic):
    with pytest.raises(UsageError):
        record(Calls(lambda ids: ids + 1), torch.randint(0, 9, (3, 5)), options={"dynamic": dynamic})


class Sizes(nn.Module):
    def forward(self, x):
        n = x.shape[0]
        a = x.new_zeros(2 * n + 1)
        b = x.new_zeros((n - 1) // 2, n % 4 + 1, min(n, 4))
        c = F.avg_pool1d(x.unsqueeze(0).transpose(1, 2), 3, stride=2, padding=1)
        d = x.new_zeros(n * n, -(-n // 3))
        return a, b, c, d


def test_sizes_are_dim_texts(record):
    manifest, _ = record(Sizes(), torch.randn(9, 3), options={"dynamic": {"x": [0]}})
    shapes = [entry["shape"] for entry in manifest["outputs"]]
    assert shapes[0] == ["2*s0 + 1"]
    assert shapes[1][:2] == ["floordiv(s0 - 1, 2)", "mod(s0, 4) + 1"]
    assert shapes[1][2] in ("min(4, s0)", "min(s0, 4)", 4)
    assert shapes[2] == [1, 3, "floordiv(s0 - 1, 2) + 1"]
    assert shapes[3] == ["s0*s0", "floordiv(s0 + 2, 3)"] or shapes[3] == ["s0*s0", "0 - floordiv(0 - s0, 3)"]


class SortsGroups(nn.Module):
    """Equal keys in any order: the sum over each group is the same."""

    def forward(self, x):
        keys = (x[:, 0] > 0).long() * 2 + (x[:, 1] > 0).long()
        sorted_keys, order = torch.sort(keys)
        back = torch.argsort(order)
        return (x[order] * sorted_keys[:, None])[back]


def test_sorts_are_recorded_as_stable_ones(record):
    x = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
    manifest, goldens = record(SortsGroups(), x, options={"taps": "all"})
    sorts = [node["op"] for node in manifest["nodes"] if "sort" in node["op"]]
    assert sorts == ["aten.sort.stable", "aten.argsort.stable"] or sorts == ["aten.sort.stable"] * 2
    keys = (x[:, 0] > 0).long() * 2 + (x[:, 1] > 0).long()
    expected = torch.sort(keys, stable=True)[1]
    assert any(t.shape == expected.shape and torch.equal(t, expected) for t in goldens.values())


def test_a_maximum_that_one_side_always_wins_is_that_side():
    import sympy
    from torch.utils._sympy.functions import Max, Min

    from pycandle.dims import write_expression

    s, t = sympy.Symbol("a", integer=True, positive=True), sympy.Symbol("b", integer=True, positive=True)
    names = {s: "s0", t: "s1"}
    assert write_expression(1 - Max(0, 1 - s), names) == 1
    assert write_expression(Min(s, s + t), names) == "s0"
    assert write_expression(Min(s * t, s), names) == "s0"
    assert "max(" in write_expression(Max(0, 2 - s), names)
    assert "min(" in write_expression(Min(s, t), names)


class GroupPerRow(nn.Module):
    def forward(self, x):
        return F.conv1d(x[None], x.new_ones(x.shape[0], 1, 3), groups=x.shape[0])[0]


def test_an_axis_that_counts_groups_is_fixed(record):
    manifest, _ = record(GroupPerRow(), torch.randn(2, 8))
    (fixed,) = manifest["fixed_dims"]
    assert "groups" in fixed["reason"] and manifest["inputs"][0]["shape"] == [2, 8]


def test_goldens_at_other_inputs_have_the_same_keys(record, tmp_path):
    model = Tied()
    _, goldens = record(model, torch.randint(0, 10, (1, 3)))
    ids = torch.randint(0, 10, (4, 7))
    path = record.recorder.add_goldens("m_other", ids)
    other = read_tensors(path)
    assert other.keys() == goldens.keys()
    assert torch.equal(other["output:output"], model(ids))
    with pytest.raises(UsageError):
        record.recorder.add_goldens("wrong", ids.float())


class ReadsWeight(nn.Module):
    """A number that is taken from a parameter while the model is traced."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([2.0]))
        self.steps = 2

    def forward(self, x):
        return x * self.scale * self.steps


def test_values_changed_after_recording_are_taken_over_by_refresh(record, tmp_path):
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    x = torch.randn(2, 4)
    record(model, x)
    with torch.no_grad():
        model[0].weight.mul_(3)
        model[1].running_mean.add_(1)
    with pytest.raises(RecordingError, match="was changed"):
        record.recorder.save("m")
    record.recorder.refresh()
    manifest, goldens = load_checked(record.recorder.save("m").manifest)
    assert torch.equal(goldens["output:output"], model(x))
    weights = read_tensors(tmp_path / manifest["files"]["weights"])
    assert torch.equal(weights["0.weight"], model[0].weight)
    assert torch.equal(weights["1.running_mean"], model[1].running_mean)


def test_refresh_refuses_a_model_that_is_no_longer_the_program(record):
    model = ReadsWeight()
    record(model, torch.randn(2, 4))
    model.steps = 3
    with pytest.raises(RecordingError, match="not the model"):
        record.recorder.refresh()


# ---- taps, budget, weights ------------------------------------------------------------------------------------


def mlp():
    return nn.Sequential(
        nn.Linear(4, 8), nn.ReLU(), nn.Sequential(nn.Linear(8, 8), nn.Tanh()), nn.Linear(8, 2)
    )


def test_taps_none_keeps_inputs_and_outputs(record):
    manifest, goldens = record(mlp(), torch.randn(2, 4), options={"taps": "none"})
    assert manifest["taps"] == [] and set(goldens) == {"input:input", "output:output"}


def test_taps_all_keeps_every_result(record):
    manifest, _ = record(
        Calls(lambda x: ((x + 1).relu() * 2).sum(1)), torch.randn(2, 4), options={"taps": "all"}
    )
    assert [tap["id"] for tap in manifest["taps"] if tap["id"].startswith("node:")] == [
        "node:1",
        "node:2",
        "node:3",
    ]


def test_a_golden_budget_keeps_outer_modules_and_says_what_is_missing(record):
    manifest, goldens = record(mlp(), torch.randn(2, 4), options={"golden_budget": 2 * 8 * 4 * 3})
    kept = {tap["id"] for tap in manifest["taps"]}
    assert {"@0/output", "0@0/output", "1@0/output", "2@0/output"} <= kept
    assert "2.0@0/output" not in kept
    assert "output:output" in goldens
    assert any(note.startswith("golden_budget: ") for note in manifest["notes"])


def test_weights_none(record):
    manifest, _ = record(mlp(), torch.randn(2, 4), options={"weights": "none"})
    assert manifest["files"]["weights"] is None
    assert {p["file"] for p in manifest["parameters"]} == {None}


def test_weights_ref_names_the_files_they_came_from(record, tmp_path):
    from safetensors.torch import save_file

    model = mlp()
    state = dict(model.state_dict())
    state.pop("3.bias")
    save_file(state, tmp_path / "checkpoint.safetensors")
    options = {"weights": "ref", "weights_files": [tmp_path / "checkpoint.safetensors"]}
    manifest, _ = record(model, torch.randn(2, 4), options=options)
    files = {p["name"]: p["file"] for p in manifest["parameters"]}
    assert files["0.weight"] == "checkpoint.safetensors" and files["3.bias"] == "m_weights.safetensors"


def test_no_source(record):
    manifest, _ = record(mlp(), torch.randn(2, 4), options={"source": False})
    assert all("lines" not in entry for entry in manifest["files_table"])


# ---- other sources --------------------------------------------------------------------------------------------


def test_an_exported_program_and_its_file(tmp_path):
    model = Tied().eval()
    ids = torch.randint(0, 10, (3, 5))
    batch = torch.export.Dim("batch", min=2, max=64)
    program = torch.export.export(model, (ids,), dynamic_shapes=({0: batch},))
    torch.export.save(program, tmp_path / "tied.pt2")
    manifests = []
    for source in (program, str(tmp_path / "tied.pt2")):
        recorder = GoldenRecorder(tmp_path, progress=lambda text: None)
        recorder.record(source, ids)
        manifest, goldens = load_checked(recorder.save("tied").manifest)
        assert torch.equal(goldens["output:output"], model(ids))
        assert manifest["inputs"][0]["shape"] == ["s0", 5]
        assert [c["path"] for c in manifest["module_calls"]] == ["", "embed", "head"]
        assert manifest["module_calls"][1]["output"] == manifest["module_calls"][2]["args"][0][1]
        manifests.append(manifest)
    assert ops(manifests[0]) == ops(manifests[1])


def test_a_meta_model_records_shapes_only(record):
    with torch.device("meta"):
        model = Tied()
    manifest, _ = record(model, torch.zeros(2, 3, dtype=torch.long, device="meta"))
    assert manifest["soundness"]["status"] == "shapes-only"
    assert manifest["files"]["weights"] is None
    assert manifest["symbols"][0]["min"] == 1


def test_a_meta_model_keeps_what_no_checkpoint_holds(record):
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4, vocab_size=50
    )
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(config)
    manifest, _ = record(model, input_ids=torch.zeros(1, 8, dtype=torch.long, device="meta"))
    with_values = [p["name"] for p in manifest["parameters"] if p["file"]]
    assert with_values == ["model.rotary_emb.inv_freq"]
    assert [s["min"] for s in manifest["symbols"]] == [1, 1]


def test_a_custom_operator_is_recorded_by_name_or_decomposed(record):
    @torch.library.custom_op("pycandle_tests::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    twice.register_fake(lambda x: torch.empty_like(x))
    model = Calls(lambda x: torch.ops.pycandle_tests.twice(x))
    manifest, _ = record(model, torch.randn(2, 3))
    assert ops(manifest) == ["pycandle_tests.twice.default"]
    table = {torch.ops.pycandle_tests.twice.default: lambda x: x + x}
    manifest, _ = record(model, torch.randn(2, 3), options={"decompositions": table})
    assert ops(manifest) == ["aten.add.Tensor"]


def test_data_bound_sizes_are_u_symbols(record):
    manifest, _ = record(Calls(lambda x: torch.nonzero(x > 0)), torch.randn(3, 4))
    assert manifest["outputs"][0]["shape"] == ["u0", 2]
    assert {"name": "u0", "min": 0, "max": None, "example": None, "bound_by": None} in manifest["symbols"]


# ---- files ----------------------------------------------------------------------------------------------------


def test_nothing_half_written_survives_a_failure(tmp_path, monkeypatch):
    recorder = GoldenRecorder(tmp_path, progress=lambda text: None)
    recorder.record(mlp().eval(), torch.randn(2, 4))

    def broken(*_):
        raise OSError("disk full")

    monkeypatch.setattr("pycandle.recorder.place_weights", broken)
    with pytest.raises(OSError, match="disk full"):
        recorder.save("m")
    assert list(tmp_path.iterdir()) == []


def test_an_older_recording_survives_a_failure(tmp_path, monkeypatch):
    recorder = GoldenRecorder(tmp_path, progress=lambda text: None)
    recorder.record(mlp().eval(), torch.randn(2, 4))
    recorder.save("m")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    recorder.record(mlp().eval(), torch.randn(2, 4))
    monkeypatch.setattr("pycandle.recorder.write_manifest", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        recorder.save("m")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_model_changed_between_record_and_save_is_refused(tmp_path):
    model = mlp().eval()
    recorder = GoldenRecorder(tmp_path, progress=lambda text: None)
    recorder.record(model, torch.randn(2, 4))
    with torch.no_grad():
        model[0].weight.add_(1)
    with pytest.raises(RecordingError, match="changed between"):
        recorder.save("m")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden", "a b"])
def test_names_that_are_no_file_names_are_refused(tmp_path, name):
    recorder = GoldenRecorder(tmp_path, progress=lambda text: None)
    recorder.record(mlp().eval(), torch.randn(2, 4))
    with pytest.raises(UsageError):
        recorder.save(name)


def test_manifest_is_json_without_nan(record, tmp_path):
    record(Calls(lambda x: x.masked_fill(x > 0, float("nan"))), torch.randn(2, 3))
    text = (tmp_path / "m_manifest.json").read_text()
    assert text.endswith("}\n") and "NaN" not in text
    json.loads(text, parse_constant=lambda constant: pytest.fail(constant))
