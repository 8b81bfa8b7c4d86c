"""Operators of torchaudio, torchvision and transformers, recorded in models and verified."""

from __future__ import annotations

import pytest
import torch
import torchaudio.functional as AF
import torchvision
import transformers.integrations.moe  # noqa: F401  (registers torch.ops.transformers)

from pycandle import Error, GoldenRecorder, load_model
from pycandle.errors import RecordingError


class Filtered(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Linear(1, 1)

    def forward(self, x):
        a, b = torch.tensor([1.0, -0.5, 0.2]), torch.tensor([0.3, 0.2, 0.1])
        return AF.lfilter(self.scale(x.unsqueeze(-1)).squeeze(-1), a, b)


class Suppressed(torch.nn.Module):
    def forward(self, corners, sizes, scores):
        boxes = torch.cat([corners, corners + sizes.abs() + 0.1], dim=1)
        kept = torchvision.ops.nms(boxes, scores, 0.3)
        return boxes[kept], kept


class Experts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(3, 4, 5))

    def forward(self, x, expert):
        order = expert.argsort(stable=True)
        ends = torch.histc(expert.float(), bins=3, min=0, max=2).cumsum(0).to(torch.int32)
        grouped = torch.ops.transformers.grouped_mm_fallback(x[order], self.weight, ends)
        return grouped[order.argsort()]


class Counted(torch.nn.Module):
    """As transformers counts on every device but the CPU, whose torch.histc takes no integers."""

    def forward(self, expert):
        return torch.histc(expert.int(), bins=4, min=0, max=3)


def recorded(model: torch.nn.Module, *inputs: torch.Tensor, folder, **settings) -> None:
    recorder = GoldenRecorder(output_dir=str(folder), **settings)
    recorder.record(model.eval(), *inputs)
    recorder.save("model")


def ops_of(pycandle, folder) -> str:
    return pycandle("inspect", folder, "--ptir").stdout


def test_a_recursive_filter_of_torchaudio_stays_one_operator(tmp_path, pycandle) -> None:
    torch.manual_seed(0)
    recorded(Filtered(), torch.randn(2, 40), folder=tmp_path)
    assert "recursive_filter(" in ops_of(pycandle, tmp_path)
    pycandle("verify", tmp_path)


def test_the_number_of_boxes_that_are_kept_is_decided_by_the_data(tmp_path, pycandle) -> None:
    torch.manual_seed(0)
    recorded(Suppressed(), torch.rand(9, 2), torch.rand(9, 2), torch.rand(9), folder=tmp_path, dynamic=False)
    assert "nms(" in ops_of(pycandle, tmp_path)
    pycandle("verify", tmp_path)


def test_tokens_without_an_expert_in_a_group_are_no_obstacle(tmp_path, pycandle) -> None:
    torch.manual_seed(0)
    recorded(Experts(), torch.randn(7, 4), torch.tensor([2, 0, 2, 2, 0, 0, 2]), folder=tmp_path)
    assert "grouped_matmul(" in ops_of(pycandle, tmp_path)
    pycandle("verify", tmp_path)


def test_integers_are_counted_where_torch_counts_them(tmp_path) -> None:
    recorded(Counted(), torch.zeros(9, dtype=torch.int64, device="meta"), folder=tmp_path)
    expert = torch.tensor([2, 0, 2, 3, 0, -1, 2, 3, 7])
    (counts,) = map(torch.from_numpy, load_model(str(tmp_path))(expert.numpy()).values())
    assert counts.dtype == torch.int32
    assert torch.equal(counts, torch.histc(expert.float(), bins=4, min=0, max=3).int())


class Strided(torch.nn.Module):
    def __init__(self, turned: bool):
        super().__init__()
        self.turned = turned

    def forward(self, x):
        x = x.mT if self.turned else x * 2
        return x.as_strided((2, 3), (1, 2), 1)


def test_strides_of_a_tensor_that_lies_row_by_row_are_followed(tmp_path, pycandle) -> None:
    recorded(Strided(False), torch.randn(3, 4), folder=tmp_path, dynamic=False)
    pycandle("verify", tmp_path)


def test_strides_of_a_turned_tensor_are_refused(tmp_path) -> None:
    with pytest.raises(RecordingError, match="as_strided is used on a view"):
        recorded(Strided(True), torch.randn(3, 4), folder=tmp_path, dynamic=False)


class Distinct(torch.nn.Module):
    def forward(self, x, repeats):
        values, places, counts = torch.unique(x, return_inverse=True, return_counts=True)
        return (
            values,
            places,
            counts,
            torch.bincount(x),
            torch.repeat_interleave(x, repeats),
            torch.unique_consecutive(x),
        )


def test_sizes_that_the_data_decides_are_found_when_the_program_runs(tmp_path, pycandle) -> None:
    recorded(
        Distinct(),
        torch.tensor([3, 1, 1, 4, 3]),
        torch.tensor([2, 0, 1, 1, 3]),
        folder=tmp_path,
        dynamic=False,
    )
    pycandle("verify", tmp_path)


class CutByData(torch.nn.Module):
    """Numbers read out of tensors as ends of slices and sizes of parts."""

    def forward(self, x, places, sizes):
        first, middle, last = x.tensor_split(places)
        parts = x.split(sizes.tolist())
        return first * 2, middle - 1, last, *(part + 1 for part in parts)


def test_tensors_are_cut_where_the_data_says(tmp_path, pycandle) -> None:
    x, places = torch.randn(7, 3), torch.tensor([2, -2])
    recorded(CutByData(), x, places, torch.tensor([1, 0, 6]), folder=tmp_path, dynamic=False)
    assert "slice_between(" in ops_of(pycandle, tmp_path)
    pycandle("verify", tmp_path)
    for places, sizes in ((torch.tensor([0, 9]), [3, 3, 1]), (torch.tensor([5, 3]), [0, 0, 7])):
        ours = load_model(tmp_path).forward(x=x, places=places, sizes=torch.tensor(sizes))
        theirs = CutByData()(x, places, torch.tensor(sizes))
        assert all(torch.equal(a, b) for a, b in zip(ours.values(), theirs, strict=True))
    for sizes in ([1, 1, 1], [3, 3, 3]):
        with pytest.raises(Error, match=r"split|part"):
            load_model(tmp_path).forward(x=x, places=places, sizes=torch.tensor(sizes))


class ScaledByData(torch.nn.Module):
    def forward(self, x, n):
        return x * n.item()


def test_a_number_from_data_that_is_no_end_of_a_slice_is_refused(tmp_path) -> None:
    with pytest.raises(RecordingError, match="a number is read out of a tensor"):
        recorded(ScaledByData(), torch.randn(3), torch.tensor(2), folder=tmp_path, dynamic=False)


class PutTogether(torch.nn.Module):
    """Rows that go through a matrix each by groups whose sizes are data, with no module call that shows the groups."""

    def __init__(self):
        super().__init__()
        self.weights = torch.nn.Parameter(torch.randn(3, 4, 4))
        self.last = torch.nn.Linear(4, 2)

    def forward(self, x, sizes):
        parts = x.split(sizes.tolist())
        return self.last(torch.cat([part @ w for part, w in zip(parts, self.weights, strict=True)]))


def test_sizes_that_no_golden_shows_are_found_by_a_run(tmp_path, pycandle) -> None:
    recorded(PutTogether(), torch.randn(7, 4), torch.tensor([1, 2, 4]), folder=tmp_path, dynamic=False)
    pycandle("verify", tmp_path)
