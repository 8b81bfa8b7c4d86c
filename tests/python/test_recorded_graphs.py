"""What the manifest says of a model's graph: nodes, regions, places, and the axes that stay open."""

import pytest
import torch
import torch.nn.functional as F
from recording_checks import Calls, ops
from torch import nn

from pycandle import load_model
from pycandle.errors import RecordingError, UsageError

torch.set_num_threads(1)

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
    assert manifest["files_table"][0]["path"] == "test_recorded_graphs.py"
    assert [lines[str(node["line"])] for node in manifest["nodes"]] == [
        "doubled = x * 2", "inner = y + 1", "return inner.relu()"
    ]  # fmt: skip


@pytest.mark.parametrize(
    "loss",
    [
        lambda x: F.cross_entropy(x, x.argmin(1), reduction="none"),
        lambda x: F.nll_loss(x, x.argmin(1), reduction="none"),
        lambda x: F.margin_ranking_loss(x, x.flip(1), x.sign(), reduction="none").sum(1),
        lambda x: F.hinge_embedding_loss(x, x.sign(), reduction="none").sum(1),
        lambda x: F.cross_entropy(x, x.argmin(1), reduction="sum").expand(len(x.shape)),
    ],
)
def test_losses_of_an_open_batch_have_the_types_that_they_have(record, tmp_path, loss):
    x = torch.randn(5, 4)
    manifest, _ = record(Calls(loss), x)
    assert manifest["inputs"][0]["shape"] == ["s0", 4]
    torch.testing.assert_close(load_model(tmp_path)(x[:2])["output"], loss(x[:2]))


@pytest.mark.parametrize(
    "grid",
    [
        lambda x: torch.linspace(-1, 1, x.shape[0]),
        lambda x: torch.linspace(0, x.shape[0] - 1, x.shape[0], dtype=x.dtype, device=x.device),
        lambda x: torch.linspace(start=x[0, 0], end=0.3, steps=2 * x.shape[0] + 1, dtype=torch.float64)[::2][
            :-1
        ],
    ],
)
def test_linspace_takes_an_open_size(record, tmp_path, grid):
    model = Calls(lambda x: grid(x)[:, None] * x)
    manifest, _ = record(model, torch.randn(5, 4))
    assert manifest["inputs"][0]["shape"] == ["s0", 4] and manifest["symbols"][0]["min"] == 1
    loaded = load_model(tmp_path)
    for rows in (1, 2, 7, 8):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(loaded(x)["output"], model(x))


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


@pytest.mark.parametrize("dynamic", ["every", {"nobody": [0]}, {"ids": [7]}, {"ids": 3}])
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

    from pycandle.recording.sizes.dims import write_expression

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
