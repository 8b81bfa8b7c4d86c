"""Models prepared for quantization-aware training (torch.ao), as they are after it."""

import pytest
import torch
import torch.ao.quantization as quantization
from agreement import agrees
from torch import nn

from pycandle import GoldenRecorder
from pycandle.errors import RecordingError

torch.set_num_threads(1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant, self.dequant = quantization.QuantStub(), quantization.DeQuantStub()
        self.conv, self.norm, self.act = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()
        self.out = nn.Linear(4, 2)

    def forward(self, x):
        x = self.act(self.norm(self.conv(self.quant(x)))).mean((2, 3))
        return self.dequant(self.out(x))


def prepared(seed):
    torch.manual_seed(seed)
    model = Net().train()
    model.qconfig = quantization.get_default_qat_qconfig("fbgemm")
    quantization.prepare_qat(model, inplace=True)
    for _ in range(3):
        model(torch.randn(4, 3, 8, 8))
    return model.eval()


@pytest.mark.parametrize("seed", [0, 1])
def test_a_model_after_quantization_aware_training_is_recorded(seed, tmp_path, pycandle):
    model = prepared(seed)
    model.apply(quantization.disable_observer)
    others = [(torch.randn(5, 3, 8, 8),)]
    recorder = agrees(tmp_path, pycandle, model, torch.randn(2, 3, 8, 8), others=others, tolerance=1e-4)
    used = [node["op"] for node in recorder.manifest["nodes"] if "fake_quantize" in node["op"]]
    assert "aten.fake_quantize_per_channel_affine.default" in used and len(used) > 3


def test_a_quantizer_that_is_switched_off_does_nothing(tmp_path, pycandle):
    model = prepared(0)
    model.apply(quantization.disable_observer).apply(quantization.disable_fake_quant)
    recorder = agrees(tmp_path, pycandle, model, torch.randn(2, 3, 8, 8), tolerance=1e-4)
    assert not any("fake_quantize" in node["op"] for node in recorder.manifest["nodes"])


def test_a_quantizer_that_observes_is_refused_with_what_to_call(tmp_path):
    recorder = GoldenRecorder(tmp_path, progress=lambda text: None)
    with pytest.raises(RecordingError, match="still observes") as refusal:
        recorder.record(prepared(0), torch.randn(2, 3, 8, 8))
    assert "disable_observer" in refusal.value.hint and "activation_post_process" in str(refusal.value)
