"""What torch.export refuses by itself and the recorder takes: each recorded, run at other inputs and sizes, and verified."""

import copy

import pytest
import torch
import torch.distributions as D
import torch.nn.functional as F
import torchaudio
from agreement import agrees
from checking_model import Catches, Checks
from test_codegen import compiled_and_run, recorded
from test_soundness import refuse
from torch import nn

from pycandle import GoldenRecorder, compile
from pycandle.errors import RecordingError, UsageError

torch.set_num_threads(1)


class Calls(nn.Module):
    """A model of one call."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def test_the_values_of_a_tensor_without_its_gradient(tmp_path, pycandle):
    def call(x):
        y = x * x.data.abs() + copy.deepcopy(x)
        y.data.mul_(2)
        z = torch.zeros_like(x)
        z.data = y + 1
        return y, z, (x * 3).detach_() + x.clone().data

    agrees(tmp_path, pycandle, Calls(call), torch.randn(3, 5), others=[(torch.randn(7, 5),)])


def test_a_tensor_is_made_of_tensors(tmp_path, pycandle):
    def call(x):
        pair = torch.tensor([x.sum(), 2.0])
        grid = torch.as_tensor([[x.mean(), 1], [x.max(), x[0, :1]]])
        return (
            pair,
            grid,
            x.new_tensor([x.min(), 3]),
            torch.tensor([x.argmax(), 4]),
            torch.tensor([x.sum().double(), 1]),
        )

    agrees(tmp_path, pycandle, Calls(call), torch.randn(3, 5), others=[(torch.randn(7, 5),)])


def test_an_element_is_picked_and_set_by_a_tensor_of_one_integer(tmp_path, pycandle):
    def call(x):
        i, j = x.sum().long() % 3, -1 - x[0].sum().int() % 2
        y = x.clone()
        y[..., i] = 1.5
        y[j, i] = 9.0
        y[None, :, i] = y[:1, i].clone()
        y[j, x[0] > 0] = 4.0
        y[i] += x[j]
        best = x[x.sum(1).argmax()] + x[:, x[0].argmin()].mean()
        return y, best, x[i, j], x[..., None, j], x[torch.tensor([0, 2]), i], x[j][x[0] > -99]

    others = [(torch.randn(rows, 5),) for rows in (3, 4, 7)]
    agrees(tmp_path, pycandle, Calls(call), torch.randn(3, 5), others=others)


class Ring(nn.Module):
    """The last four inputs."""

    def __init__(self):
        super().__init__()
        self.register_buffer("step", torch.tensor(0))
        self.register_buffer("last", torch.zeros(4, 3))

    def forward(self, x):
        self.last[self.step % 4] = x.mean(0)
        self.step += 1
        return x + self.last.sum(0)


def test_a_ring_of_states_is_written_at_its_counter():
    model, x = Ring().eval(), torch.randn(2, 3)
    compiled = compile(model, x)
    for call in range(9):
        torch.testing.assert_close(compiled(x + call), model(x + call))


def test_a_picked_row_that_is_written_through_is_refused(tmp_path):
    """In torch it is a view: what is written into it changes the tensor, and the other way round."""

    def call(x):
        y = x.clone()
        y[x[0].argmax()].mul_(2)
        return y

    with pytest.raises(RecordingError, match="is not the model"):
        GoldenRecorder(tmp_path).record(Calls(call).eval(), torch.randn(3, 3))


class Equal(nn.Module):
    def forward(self, x, y):
        same, close = torch.equal(x, y), torch.allclose(x, y, atol=1e-3, equal_nan=True)
        return same, close, x * x.equal(y), torch.equal(x, x[:, :1])


class Moves(nn.Module):
    """Puts its parts where the input is, at each call."""

    def __init__(self):
        super().__init__()
        self.parts = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4))

    def forward(self, x):
        self.parts = self.parts.to(x.device)
        return self.parts.to(device=x.device, dtype=torch.float32)(x)


def test_a_model_that_moves_its_parts(tmp_path, pycandle):
    agrees(tmp_path, pycandle, Moves(), torch.randn(3, 5), others=[(torch.randn(7, 5),)])


class Masked(nn.Module):
    """torch's own layers with a mask, which they compare with the causal one in Python."""

    def __init__(self, layers, batch_first):
        super().__init__()
        self.words, self.layers, self.sequence = nn.Embedding(20, 8), layers, int(batch_first)

    def mask(self, ids):
        return nn.Transformer.generate_square_subsequent_mask(ids.shape[self.sequence])


class MaskedEncoder(Masked):
    def __init__(self):
        super().__init__(
            nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2), True
        )

    def forward(self, ids, padding):
        return self.layers(self.words(ids), self.mask(ids), padding)


class MaskedTransformer(Masked):
    def __init__(self):
        super().__init__(nn.Transformer(8, 2, 1, 1, 16), False)

    def forward(self, source, target):
        return self.layers(self.words(source), self.words(target), tgt_mask=self.mask(target))


def test_torchs_encoder_takes_masks(tmp_path, pycandle):
    def call(batch, length):
        ends = torch.randint(1, length + 1, (batch, 1))
        return torch.randint(0, 20, (batch, length)), torch.arange(length) >= ends

    agrees(tmp_path, pycandle, MaskedEncoder(), *call(2, 7), others=[call(2, 1), call(3, 12)])


def test_torchs_transformer_takes_masks(tmp_path, pycandle):
    def call(batch, *lengths):
        return tuple(torch.randint(0, 20, (length, batch)) for length in lengths)

    recorder = agrees(
        tmp_path, pycandle, MaskedTransformer(), *call(2, 6, 5), others=[call(1, 4, 1), call(3, 2, 9)]
    )
    assert "_detect_is_causal_mask" in recorder.manifest["notes"][0]


@pytest.mark.parametrize("kind", ["Conformer", "Emformer"])
def test_torchaudios_models_take_lengths(kind, tmp_path, pycandle):
    emformer = torchaudio.models.Emformer(8, 2, 16, 1, 4, right_context_length=1)
    model = {"Conformer": torchaudio.models.Conformer(8, 2, 16, 1, 3), "Emformer": emformer}[kind]

    def call(*lengths):
        return torch.randn(len(lengths), 9, 8), torch.tensor(lengths)

    full = 9 if kind == "Conformer" else 8
    agrees(tmp_path, pycandle, model, *call(full, 5, 2), others=[call(full), call(3, full)])


def test_equal_and_allclose_are_data(tmp_path, pycandle):
    x, y = torch.randn(3, 5), torch.randn(3, 5)
    nan = torch.full((3, 5), float("nan"))
    others = [(x, x), (x, x + 1e-4), (nan, nan), (nan, x)]
    agrees(tmp_path, pycandle, Equal(), x, y, others=others)


def test_a_compiled_model_gives_bools_back():
    x = torch.randn(3, 5)
    compiled = compile(Equal(), x, x * 2)
    for y in (x, x + 1e-4, x * 2):
        same, close, product, other = compiled(x, y)
        assert (same, close, other) == (torch.equal(x, y), torch.allclose(x, y, atol=1e-3), False)
        assert torch.equal(product, x * torch.equal(x, y))


class BranchOnEqual(nn.Module):
    def forward(self, x, y):
        if torch.equal(x, y):  # HERE
            return x
        return x + y


def test_a_branch_on_equal_is_refused_at_its_line(tmp_path):
    recorder = GoldenRecorder(tmp_path, progress=lambda text: None)
    error = refuse(recorder, BranchOnEqual(), torch.randn(2, 3), torch.randn(2, 3))
    assert "torch.where" in error.hint


class OwnGenerator(nn.Module):
    def forward(self, x):
        return x + torch.rand(3, generator=torch.Generator().manual_seed(3))  # HERE


def test_a_generator_within_the_model_is_refused_at_its_line(tmp_path):
    recorder = GoldenRecorder(tmp_path, progress=lambda text: None)
    assert "draw without generator=" in refuse(recorder, OwnGenerator(), torch.randn(2, 3)).hint


class Ragged(nn.Module):
    def forward(self, x):
        rows = torch.nested.nested_tensor([x[0], x[1, :2]])  # HERE
        return torch.nested.to_padded_tensor(rows, 0.0)


def test_rows_of_several_lengths_are_refused_with_what_to_do(tmp_path):
    recorder = GoldenRecorder(tmp_path, progress=lambda text: None)
    error = refuse(recorder, Ragged(), torch.randn(2, 3))
    assert "nested tensors" in str(error) and "mask" in error.hint


@pytest.mark.parametrize("layout", ["sparse", "nested"])
def test_an_input_that_is_not_dense_is_refused_by_its_name(tmp_path, layout):
    x = torch.eye(3).to_sparse() if layout == "sparse" else torch.nested.nested_tensor([torch.ones(2)])
    with pytest.raises(UsageError, match=r"the input x is .*to_dense"):
        GoldenRecorder(tmp_path, progress=lambda text: None).record(Ragged(), x)


def test_weights_that_torch_packed_are_recorded_before_they_are(tmp_path):
    model = torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(4, 2)), {nn.Linear})
    with pytest.raises(RecordingError, match="quantize_dynamic") as refusal:
        GoldenRecorder(tmp_path, progress=lambda text: None).record(model.eval(), torch.randn(3, 4))
    assert "--weights int8" in refusal.value.hint


class ClassesOfData(nn.Module):
    def forward(self, x):
        return F.one_hot(x)  # HERE


def test_one_hot_without_its_classes_says_what_to_pass(tmp_path):
    recorder = GoldenRecorder(tmp_path, progress=lambda text: None)
    assert "num_classes" in refuse(recorder, ClassesOfData(), torch.randint(0, 4, (2, 3))).hint


class SizesWithoutRule(nn.Module):
    def forward(self, x):
        return F.ctc_loss(x, torch.tensor([[1, 2]]), torch.tensor([6]), torch.tensor([2]))  # HERE


def test_an_operator_whose_sizes_torch_cannot_say_is_no_branch_on_values(tmp_path):
    recorder = GoldenRecorder(tmp_path, progress=lambda text: None)
    error = refuse(recorder, SizesWithoutRule(), torch.randn(6, 1, 5).log_softmax(-1))
    assert "torch.export has no rule" in str(error) and "other operators" in error.hint


class Transformed(nn.Module):
    def forward(self, x):
        return torch.func.grad(lambda t: (t**2).sum())(x)


class Differentiated(nn.Module):
    def forward(self, x):
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            return torch.autograd.grad((x**3).sum(), x)[0]


def test_gradients_inside_a_model_are_recorded_from_autograd(tmp_path, pycandle):
    agrees(tmp_path, pycandle, Differentiated(), torch.randn(3, 5), others=[(torch.randn(7, 5),)])
    with pytest.raises(RecordingError) as refusal:
        GoldenRecorder(tmp_path, progress=lambda text: None).record(Transformed(), torch.randn(3, 5))
    assert "torch.autograd.grad" in refusal.value.hint


class Ensemble(nn.Module):
    """Three networks at once, by stacked weights."""

    def __init__(self):
        super().__init__()
        self.members = nn.ModuleList(nn.Sequential(nn.Linear(5, 4), nn.Tanh()) for _ in range(3))

    def forward(self, x):
        names = [name for name, _ in self.members[0].named_parameters()]
        stacked = {n: torch.stack([dict(m.named_parameters())[n] for m in self.members]) for n in names}
        member = self.members[0]
        return torch.vmap(lambda own: torch.func.functional_call(member, own, (x,)))(stacked).mean(0)


def test_modules_called_with_stacked_weights_are_recorded(tmp_path, pycandle):
    """Their inputs are whole tensors, and what comes out is a slice inside vmap."""
    agrees(tmp_path, pycandle, Ensemble(), torch.randn(3, 5), others=[(torch.randn(7, 5),)])


# ---- checks of values that only raise -------------------------------------------------------------------------


def test_checks_that_only_raise_are_left_out_and_noted(tmp_path, pycandle):
    example = torch.randn(3, 5), torch.tensor([1, 2, 3])
    recorder = agrees(
        tmp_path, pycandle, Checks(), *example, others=[(torch.randn(4, 5), torch.tensor([9, 9, 9, 9]))]
    )
    notes = [note for note in recorder.manifest["notes"] if "is left out" in note]
    assert len(notes) == 12 and any("torch/nn/functional.py" in note for note in notes)
    assert any("checking_model.py" in note for note in notes)


class ChecksAndChanges(nn.Module):
    def forward(self, x):
        if x.sum() > 0:  # HERE
            x = x + 1
            if self.training:
                return x
            raise ValueError
        return x


class DecidesByAssignment(nn.Module):
    def forward(self, x):
        factor = 2 if x.sum() > 0 else 3  # HERE
        return x * factor


@pytest.mark.parametrize("kind", [ChecksAndChanges, DecidesByAssignment])
def test_a_branch_that_decides_anything_else_is_refused(kind, tmp_path):
    recorder = GoldenRecorder(tmp_path, progress=lambda text: None)
    refuse(recorder, kind().eval(), -torch.rand(2, 3))


CAUGHT = [
    "a_handler",
    "a_handler_of_everything",
    "a_handler_of_a_number",
    "suppressed",
    "a_return_at_last",
    "torch_assert",
    "a_caller",
    "a_caller_of_torch",
    "a_check_of_its_own",
]


@pytest.mark.parametrize("how", CAUGHT)
def test_a_check_that_the_model_catches_is_a_branch_and_refused(how, tmp_path):
    refuse(GoldenRecorder(tmp_path, progress=lambda text: None), Catches(how), torch.rand(2, 3))


@pytest.mark.parametrize("how, checks", [("raised_again", 2), ("a_caller_of_a_warning", 1)])
def test_a_check_that_is_raised_again_or_only_warns_is_left_out(how, checks, tmp_path, pycandle):
    recorder = agrees(tmp_path, pycandle, Catches(how), torch.randn(2, 3))
    assert sum("is left out" in note for note in recorder.manifest["notes"]) == checks


# ---- distributions --------------------------------------------------------------------------------------------

DISTRIBUTIONS = {
    "normal": lambda x: (
        D.Normal(x, x.abs() + 1).log_prob(x * 2) + D.Normal(x, 1.0).cdf(x) + D.Normal(x, 2.0).entropy()
    ),
    "normal that asks for validation": lambda x: D.Normal(x, x.abs() + 1, validate_args=True).log_prob(x),
    "bernoulli": lambda x: (
        D.Bernoulli(logits=x).log_prob((x > 0).float()) + D.Bernoulli(x.sigmoid()).entropy()
    ),
    "categorical": lambda x: (
        D.Categorical(logits=x).log_prob(x.argmax(-1)) + D.Categorical(x.softmax(-1)).entropy()
    ),
    "one-hot": lambda x: D.OneHotCategorical(logits=x).log_prob(F.one_hot(x.argmax(-1), 5).float()),
    "independent": lambda x: D.Independent(D.Normal(x, 1.0), 1).log_prob(x * 2),
    "multivariate normal": lambda x: D.MultivariateNormal(x, torch.eye(5) * 2).log_prob(x * 2),
    "mixture": lambda x: D.MixtureSameFamily(D.Categorical(logits=x), D.Normal(x, 1.0)).log_prob(x[:, 0]),
    "transformed": lambda x: D.TransformedDistribution(D.Normal(x, 1.0), D.TanhTransform()).log_prob(
        x.tanh() * 0.9
    ),
    "divergences": lambda x: (
        D.kl_divergence(D.Normal(x, 1.0), D.Normal(0.0, 1.0)).sum(-1)
        + D.kl_divergence(D.Categorical(logits=x), D.Categorical(logits=x * 2))
        + D.kl_divergence(D.Independent(D.Normal(x, 1.0), 1), D.Independent(D.Normal(x * 0, 2.0), 1))
        + D.kl_divergence(
            D.MultivariateNormal(x, torch.eye(5) * 2), D.MultivariateNormal(x * 0, torch.eye(5))
        )
    ),
    "gamma, beta, dirichlet": lambda x: (
        D.Gamma(x.abs() + 1, 2.0).log_prob(x.abs() + 0.1).sum(-1)
        + D.Beta(x.abs() + 1, 2.0).log_prob(x.sigmoid()).sum(-1)
        + D.Dirichlet(x.abs() + 1).log_prob(x.softmax(-1))
    ),
}
SAMPLES = {
    "normal": lambda x: x + D.Normal(x, x.abs() + 1).rsample(),
    "several": lambda x: D.Independent(D.Laplace(x, 1.0), 1).rsample((4,)) + D.Uniform(x, x + 1).rsample(),
    "categorical": lambda x: D.Categorical(logits=x).sample() + D.Bernoulli(x.sigmoid()).sample().sum(-1),
}


@pytest.mark.parametrize("kind", DISTRIBUTIONS)
def test_distributions_are_recorded_without_their_checks(kind, tmp_path, pycandle, monkeypatch):
    monkeypatch.setattr(D.Distribution, "_validate_args", True)  # torch.compile turns it off for the process
    torch.manual_seed(len(kind))
    others = [(torch.randn(7, 5),), (torch.randn(1, 5),)]
    agrees(tmp_path, pycandle, Calls(DISTRIBUTIONS[kind]), torch.randn(3, 5), others=others, tolerance=1e-4)
    assert D.Distribution._validate_args, "they validate again after the recording"


@pytest.mark.parametrize("kind", SAMPLES)
def test_samples_of_distributions_are_recorded(kind, tmp_path, pycandle):
    agrees(
        tmp_path,
        pycandle,
        Calls(SAMPLES[kind]),
        torch.randn(3, 5),
        others=[(torch.randn(7, 5),)],
        values=False,
    )


# ---- names ----------------------------------------------------------------------------------------------------


class union(nn.Module):
    """Keywords of Python and C++ as names of classes, members, parameters and inputs."""

    def __init__(self):
        super().__init__()
        self.int, self.template, self.register = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)
        self.parts = nn.ModuleDict({"class": nn.Linear(4, 4), "lambda": nn.ReLU(), "new": nn.Linear(4, 4)})
        self.numbers = nn.ParameterDict(
            {"for": nn.Parameter(torch.ones(4)), "and": nn.Parameter(torch.ones(4))}
        )
        self.register_buffer("static", torch.ones(4))
        setattr(self, "def", nn.Linear(4, 4))

    def forward(self, double, default):
        x = self.register(self.template(self.int(double))) * self.static
        for name in ("class", "lambda", "new"):
            x = self.parts[name](x)
        return getattr(self, "def")(x) * self.numbers["for"] + default * self.numbers["and"]


def test_keywords_are_names_of_modules_parameters_and_inputs(tmp_path, pycandle):
    others = [(torch.randn(5, 4), torch.randn(5, 4))]
    agrees(tmp_path, pycandle, union(), torch.randn(2, 4), torch.randn(2, 4), others=others)


def test_keywords_are_names_in_emitted_code_too(tmp_path, pycandle):
    manifest = recorded(union(), tmp_path, {"double": torch.randn(2, 4), "default": torch.randn(2, 4)})
    compiled_and_run(manifest, tmp_path, pycandle)
    assert 'w / "parts.class"' in (tmp_path / "model.hpp").read_text()


def test_an_exported_program_with_keywords_is_recorded(tmp_path, pycandle):
    exported = torch.export.export(union(), (torch.randn(2, 4), torch.randn(2, 4)))
    recorder = GoldenRecorder(tmp_path, progress=lambda text: None)
    recorder.record(exported)
    names = {entry["name"] for entry in recorder.manifest["parameters"]}
    assert {"def.weight", "parts.class.weight", "register.bias"} <= names
    pycandle("verify", recorder.save("m").manifest)
