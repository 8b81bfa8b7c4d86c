"""Corners of emitted code that published models have (make zoo-emit found them), each in a model of a few lines."""

from __future__ import annotations

import torch
from test_codegen import compiled_and_run, recorded
from torch import nn
from torch._higher_order_ops import while_loop
from torch._higher_order_ops.scan import scan


class Scale(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x * self.weight) + x


class Wide(nn.Module):
    """Its result has many digits, and no more that are right than what it was given."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.double() * 3


class Corners(nn.Module):
    """A part that is called as its class is; a tuple whose other part is absent; doubles made of floats."""

    def __init__(self) -> None:
        super().__init__()
        self.Scale = Scale()
        self.Tensor = nn.Linear(64, 6)
        self.wide = Wide()

    def forward(self, x: torch.Tensor) -> tuple:
        return self.wide(self.Scale(self.Tensor(x))).float(), None


def test_corners_compile_and_are_the_recorded_program(tmp_path, pycandle) -> None:
    manifest = recorded(Corners(), tmp_path, {"x": torch.randn(2, 64)})
    compiled_and_run(manifest, tmp_path, pycandle)
    text = (tmp_path / "model.hpp").read_text()
    assert "Scale scale;" in text and "nn::Linear tensor;" in text
    assert "std::tuple<Tensor> forward(const Tensor& x) const" in text


class Experts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(2))

    def forward(self, x: torch.Tensor, counts: list[int]) -> torch.Tensor:
        parts = x.split(counts, dim=0)
        return torch.cat([expert(part) for expert, part in zip(self.experts, parts, strict=True)])


class Pooled(nn.Module):
    """Sizes that the data decides in one module, used in the next; attention whose keys are not its queries."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = Experts(), Experts()
        self.probe = nn.Parameter(torch.randn(1, 1, 8))
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        sizes = counts.tolist()
        rows = self.down(torch.relu(self.up(x, sizes)), sizes)
        return self.attention(self.probe, x[None], x[None])[0] + rows.sum(0)


def test_sizes_of_data_cross_modules_and_recognised_attention_stays_as_it_is(tmp_path, pycandle) -> None:
    inputs = {"x": torch.randn(5, 8), "counts": torch.tensor([2, 3])}
    manifest = recorded(Pooled(), tmp_path, inputs, dynamic={})
    compiled_and_run(manifest, tmp_path, pycandle)
    text = (tmp_path / "model.hpp").read_text()
    assert "const Dim u0 = data_dim();" in text and "a size that its data decides is used elsewhere" in text
    assert "functional::scaled_dot_product_attention(" in text


class Noisy(nn.Module):
    """Two draws as arguments of one call: their order is Python's."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.where(x > 0, torch.rand(3, 6), torch.rand_like(x))


def test_the_test_of_a_random_model_compares_programs_not_values(tmp_path, pycandle) -> None:
    manifest = recorded(Noisy(), tmp_path, {"x": torch.randn(3, 6)}, dynamic={})
    pycandle("gen-test", "--manifest", manifest, "--out", tmp_path / "test_model.cpp")
    text = (tmp_path / "test_model.cpp").read_text()
    assert "draws random numbers" in text and "IsTheRecordedProgram" in text
    assert "AgreesLayerByLayer" not in text
    pycandle("codegen", "--manifest", manifest, "--out", tmp_path / "model.hpp")
    assert (tmp_path / "model.hpp").read_text().count(" = functional::uniform(") == 2


class Attentions(nn.Module):
    """nn.MultiheadAttention in all its forms."""

    def __init__(self) -> None:
        super().__init__()
        self.masked = nn.MultiheadAttention(8, 2, batch_first=True)
        self.padded = nn.MultiheadAttention(8, 2, batch_first=True)
        self.weighted = nn.MultiheadAttention(8, 2, batch_first=True)
        self.weighted_and_masked = nn.MultiheadAttention(8, 2, batch_first=True)
        self.sequence_first = nn.MultiheadAttention(8, 2, bias=False)
        self.other_widths = nn.MultiheadAttention(8, 2, kdim=6, vdim=7, batch_first=True)
        self.plain = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(
        self,
        x: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        mask: torch.Tensor,
        padding: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        x = self.masked(x, x, x, attn_mask=mask, need_weights=False)[0]
        x = self.padded(x, x, x, key_padding_mask=padding, need_weights=False)[0]
        x, averaged = self.weighted(x, x, x)
        both = {"attn_mask": mask > 0, "key_padding_mask": padding}
        x, weights = self.weighted_and_masked(x, x, x, **both, average_attn_weights=False)
        x = self.sequence_first(x, x, x, need_weights=False)[0]
        x = self.plain(x, x, x, need_weights=False)[0]
        return self.other_widths(x, key, value, need_weights=False)[0], averaged, weights


def test_attention_with_masks_weights_and_other_widths_is_the_recorded_program(tmp_path, pycandle) -> None:
    generator = torch.Generator().manual_seed(0)
    inputs = {
        "x": torch.randn(3, 5, 8, generator=generator),
        "key": torch.randn(3, 4, 6, generator=generator),
        "value": torch.randn(3, 4, 7, generator=generator),
        "mask": torch.randn(5, 5, generator=generator).fill_diagonal_(-1),
        "padding": torch.tensor([[False] * 5, [False] * 5, [False, False, False, False, True]]),
    }
    manifest = recorded(Attentions(), tmp_path, inputs, dynamic={})
    compiled_and_run(manifest, tmp_path, pycandle)
    text = (tmp_path / "model.hpp").read_text()
    assert "nn::MultiheadAttention plain;" in text
    assert (
        "{.attn_mask = attn_mask.reshape({1, 1, 5, 5})}" in text and "{.key_mask = ~key_padding_mask}" in text
    )
    assert "const Tensor key_heads = " in text, "what a value is for, when its argument has that name"


class Pyramid(nn.Module):
    """As torchvision's feature pyramid: both helpers assign to `out`, and levels are made from the last to the first."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.ModuleList(nn.Conv2d(width, 4, 1) for width in (2, 3, 5))
        self.layer = nn.ModuleList(nn.Conv2d(4, 4, 3, padding=1) for _ in range(3))

    def called(self, modules: nn.ModuleList, x: torch.Tensor, index: int) -> torch.Tensor:
        out = x
        for i, module in enumerate(modules):
            if i == index:
                out = module(x)
        return out

    def forward(self, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> list:
        x = [a, b, c]
        last = self.called(self.inner, c, 2)
        results = [self.called(self.layer, last, 2)]
        for i in (1, 0):
            lateral = self.called(self.inner, x[i], i)
            last = lateral + nn.functional.interpolate(last, size=lateral.shape[-2:])
            results.insert(0, self.called(self.layer, last, i))
        return results


def test_a_feature_pyramid_is_the_recorded_program(tmp_path, pycandle) -> None:
    inputs = {"a": torch.randn(1, 2, 8, 8), "b": torch.randn(1, 3, 4, 4), "c": torch.randn(1, 5, 2, 2)}
    assert compiled_and_run(recorded(Pyramid(), tmp_path, inputs), tmp_path, pycandle) >= 6


class Flows(nn.Module):
    """Names of what control flow gives, which are not the op's results one by one."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.read = nn.Linear(11, 5), nn.Linear(5, 3)

    def forward(self, x: torch.Tensor, hidden: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        def combine(hidden, x):
            hidden = torch.tanh(self.cell(torch.cat([x, hidden], -1)))
            return hidden, self.read(hidden)

        last, outputs = scan(combine, hidden, x, dim=0)
        i, guess = while_loop(lambda i, g: i < 3, lambda i, g: (i + 1, g * 0.5), (torch.tensor(0), last))
        low, high = torch.cond(x.sum() > 0, lambda v: (v.exp(), v + 1), lambda v: (v - 1, v * 2), (guess,))
        return outputs, low * high + i


def test_results_of_control_flow_have_pythons_names(tmp_path, pycandle) -> None:
    inputs = {"x": torch.randn(4, 2, 6), "hidden": torch.randn(2, 5)}
    manifest = recorded(Flows(), tmp_path, inputs, dynamic={})
    compiled_and_run(manifest, tmp_path, pycandle)
    text = (tmp_path / "model.hpp").read_text()
    assert "auto [last, " in text and ", outputs] = unpack<6>(functional::scan(" in text
    assert "auto [i, guess] = unpack<2>(functional::while_loop(" in text and "auto [low, high] = " in text
    assert "const Tensor& x_t = v[5];" in text and "return {outputs, low * high + i};" in text
