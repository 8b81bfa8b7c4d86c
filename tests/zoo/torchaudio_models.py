"""torchaudio's models, made small, and all of its transforms."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torchaudio
from torch import nn
from torchaudio.models import rnnt
from torchaudio.models.wav2vec2 import model as wav2vec2

from .entry import Entry, Inputs, Sizes, floats, overriding

BATCH = {"batch": 2}
RATE = 8000


# ---- models ---------------------------------------------------------------------------------------------------

# The sizes of a builder's own that are overridden; the rest is the builder's.
NARROW = {
    "extractor_conv_layer_config": [(16, 10, 5), (16, 3, 2), (16, 2, 2)],
    "encoder_embed_dim": 32, "encoder_num_layers": 2, "encoder_num_heads": 4, "encoder_pos_conv_kernel": 16,
    "encoder_pos_conv_groups": 4, "encoder_ff_interm_features": 48,
}  # fmt: skip


def speech_encoder(builder: str, helper: str = "wav2vec2_model") -> Entry:
    def make() -> nn.Module:
        with overriding(wav2vec2, helper, **NARROW):
            return getattr(torchaudio.models, builder)(aux_num_out=12)

    return model(builder, make, floats(waveforms=("batch", 1200)), note="2 narrow layers")


def pretraining(builder: str) -> Entry:
    def make() -> nn.Module:
        with overriding(wav2vec2, "hubert_pretrain_model", **NARROW, num_classes=10, final_dim=8):
            return getattr(torchaudio.models, builder)()

    def inputs(s: Sizes, g: torch.Generator) -> dict:
        return {
            "waveforms": torch.randn(s["batch"], 1200, generator=g),
            "labels": torch.randint(0, 10, (s["batch"], 59), generator=g),
        }

    return model(builder, make, inputs, note="2 narrow layers")


def model(name: str, make: Callable[[], nn.Module], inputs: Inputs, sizes: Sizes = BATCH, **more) -> Entry:
    return Entry("torchaudio", name, "model", make, inputs, sizes, **more)


def lengths_inputs(features: int, length: int) -> Inputs:
    def make(s: Sizes, g: torch.Generator) -> dict:
        lengths = torch.full((s["batch"],), length)
        return {"input": torch.randn(s["batch"], length, features, generator=g), "lengths": lengths}

    return make


def tacotron_inputs(s: Sizes, g: torch.Generator) -> dict:
    return {
        "tokens": torch.randint(0, 20, (s["batch"], 7), generator=g),
        "token_lengths": torch.full((s["batch"],), 7),
        "mel_specgram": torch.randn(s["batch"], 8, 10, generator=g),
        "mel_specgram_lengths": torch.full((s["batch"],), 10),
    }


def rnnt_inputs(s: Sizes, g: torch.Generator) -> dict:
    return {
        "sources": torch.randn(s["batch"], 20, 8, generator=g),
        "source_lengths": torch.full((s["batch"],), 16),
        "targets": torch.randint(0, 10, (s["batch"], 5), generator=g),
        "target_lengths": torch.full((s["batch"],), 5),
    }


def make_rnnt() -> nn.Module:
    small = {
        "input_dim": 8, "encoding_dim": 16, "segment_length": 4, "right_context_length": 4, "time_reduction_input_dim": 8,
        "time_reduction_stride": 2, "transformer_num_heads": 2, "transformer_ffn_dim": 24, "transformer_num_layers": 2,
        "transformer_left_context_length": 4, "symbol_embedding_dim": 8, "num_lstm_layers": 1,
    }  # fmt: skip
    with overriding(rnnt, "emformer_rnnt_model", **small):
        return torchaudio.models.emformer_rnnt_base(num_symbols=11)


def hdemucs(name: str, channels: int, **sizes) -> Entry:
    def make() -> nn.Module:
        return torchaudio.models.HDemucs(["voice", "rest"], audio_channels=1, channels=channels, **sizes)

    return model(name, make, floats(input=("batch", 1, 4 * sizes["nfft"])), note=f"{channels} channels")


def models() -> list[Entry]:
    m = torchaudio.models
    return [
        model("Wav2Letter", lambda: m.Wav2Letter(num_classes=10), floats(x=("batch", 1, 2000))),
        model("Wav2Letter_features", lambda: m.Wav2Letter(10, "mfcc", 13), floats(x=("batch", 13, 40))),
        model("WaveRNN", lambda: m.WaveRNN([2, 3], 16, 6, 2, 24, 24, n_freq=8, n_hidden=12, n_output=12), floats(waveform=("batch", 1, 36), specgram=("batch", 1, 8, 10))),
        model("ConvTasNet", lambda: m.ConvTasNet(2, 16, 24, 3, 16, 24, 3, 2), floats(input=("batch", 1, 320))),
        model("DeepSpeech", lambda: m.DeepSpeech(13, 32, 10), floats(x=("batch", 1, 12, 13))),
        speech_encoder("wav2vec2_base"),
        speech_encoder("wav2vec2_large"),
        speech_encoder("wav2vec2_large_lv60k"),
        speech_encoder("wav2vec2_xlsr_300m"),
        speech_encoder("wav2vec2_xlsr_1b"),
        speech_encoder("wav2vec2_xlsr_2b"),
        speech_encoder("hubert_base"),
        speech_encoder("hubert_large"),
        speech_encoder("hubert_xlarge"),
        speech_encoder("wavlm_base", "wavlm_model"),
        speech_encoder("wavlm_large", "wavlm_model"),
        pretraining("hubert_pretrain_base"),
        pretraining("hubert_pretrain_large"),
        pretraining("hubert_pretrain_xlarge"),
        model("Tacotron2", lambda: m.Tacotron2(n_mels=8, n_symbol=20, symbol_embedding_dim=16, encoder_embedding_dim=16, decoder_rnn_dim=24, attention_rnn_dim=24, attention_hidden_dim=8, attention_location_n_filter=4, attention_location_kernel_size=5, prenet_dim=8, postnet_embedding_dim=16), tacotron_inputs),
        model("Conformer", lambda: m.Conformer(16, 4, 24, 2, 7), lengths_inputs(16, 12)),
        model("Emformer", lambda: m.Emformer(16, 4, 24, 2, 4, right_context_length=2), lengths_inputs(16, 14)),
        model("emformer_rnnt_base", make_rnnt, rnnt_inputs),
        hdemucs("hdemucs_low", 4, nfft=1024, depth=5),
        hdemucs("hdemucs_medium", 4, nfft=2048, depth=6),
        hdemucs("hdemucs_high", 4, nfft=4096, depth=6),
        model("squim_objective_base", lambda: m.squim_objective_model(16, 32, 16, 2, 24, 1, "LSTM", 7), floats(x=("batch", 400))),
        model("squim_subjective_base", make_squim_subjective, floats(waveform=("batch", 1200), reference=("batch", 1200))),
    ]  # fmt: skip


def make_squim_subjective() -> nn.Module:
    with overriding(wav2vec2, "wavlm_model", **NARROW):
        return torchaudio.models.squim_subjective_model("wavlm_base", 32, 8, 3)


# ---- transforms -----------------------------------------------------------------------------------------------


def wave(s: Sizes, g: torch.Generator, length: int = 900) -> torch.Tensor:
    return 0.3 * torch.randn(s["batch"], length, generator=g)


def waveform(length: int = 900) -> Inputs:
    return lambda s, g: {"waveform": wave(s, g, length)}


def power(bins: int = 33, frames: int = 20) -> Inputs:
    return lambda s, g: {"specgram": torch.randn(s["batch"], bins, frames, generator=g).square()}


def spectrum(bins: int = 33, frames: int = 20, name: str = "specgram", channels: tuple = ()) -> Inputs:
    def make(s: Sizes, g: torch.Generator) -> dict:
        return {name: torch.randn(s["batch"], *channels, bins, frames, generator=g, dtype=torch.complex64)}

    return make


def beam_inputs(*names: str) -> Inputs:
    """Spectra of 3 microphones with masks of speech and noise in (0, 1)."""

    def make(s: Sizes, g: torch.Generator) -> dict:
        spectra = torch.randn(s["batch"], 3, 9, 12, generator=g, dtype=torch.complex64)
        masks = torch.rand(s["batch"], 9, 12, generator=g)
        possible = {"specgram": spectra, "mask_s": masks, "mask_n": 1 - masks, "mask": masks}
        for name in ("psd_s", "psd_n"):
            square = torch.randn(s["batch"], 9, 3, 3, generator=g, dtype=torch.complex64)
            possible[name] = square @ square.mH + 0.1 * torch.eye(3)
        possible["rtf"] = torch.randn(s["batch"], 9, 3, generator=g, dtype=torch.complex64)
        return {name: possible[name] for name in names}

    return make


class Beamformer(nn.Module):
    """A beamformer with its reference channel fixed."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.inner = getattr(torchaudio.transforms, kind)()
        self.kind = kind

    def forward(self, specgram: torch.Tensor, psd_s: torch.Tensor, psd_n: torch.Tensor) -> torch.Tensor:
        return self.inner(specgram, psd_s, psd_n, 0)


class RtfBeamformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torchaudio.transforms.RTFMVDR()

    def forward(self, specgram: torch.Tensor, rtf: torch.Tensor, psd_n: torch.Tensor) -> torch.Tensor:
        return self.inner(specgram, rtf, psd_n, 0)


def noise_inputs(s: Sizes, g: torch.Generator) -> dict:
    snr = 10 * torch.rand(s["batch"], generator=g)
    return {"waveform": wave(s, g, 200), "noise": wave(s, g, 200), "snr": snr}


def rnnt_loss_inputs(s: Sizes, g: torch.Generator) -> dict:
    return {
        "logits": torch.randn(s["batch"], 6, 4, 10, generator=g),
        "targets": torch.randint(0, 9, (s["batch"], 3), generator=g, dtype=torch.int32),
        "logit_lengths": torch.full((s["batch"],), 6, dtype=torch.int32),
        "target_lengths": torch.full((s["batch"],), 3, dtype=torch.int32),
    }


def codes(s: Sizes, g: torch.Generator) -> dict:
    return {"x_mu": torch.randint(0, 256, (s["batch"], 200), generator=g)}


def transform(name: str, inputs: Inputs, *args, **kwargs) -> Entry:
    return Entry(
        "torchaudio",
        name,
        "transform",
        lambda: getattr(torchaudio.transforms, name)(*args, **kwargs),
        inputs,
        BATCH,
    )


def transforms() -> list[Entry]:
    mel = {"n_fft": 64, "hop_length": 32, "n_mels": 16}
    pair = floats(x=("batch", 60), y=("batch", 9))
    return [
        transform("AddNoise", noise_inputs),
        transform("AmplitudeToDB", power(), "power", 80.0),
        transform("ComputeDeltas", power()),
        transform("Convolve", pair, "same"),
        transform("Deemphasis", waveform(200)),
        transform("Fade", waveform(), 50, 80, "exponential"),
        transform("FFTConvolve", pair, "valid"),
        transform("FrequencyMasking", power(), 8),
        transform("GriffinLim", power(), 64, 3),
        transform("InverseMelScale", power(16), 33, 16, RATE),
        transform("InverseSpectrogram", spectrum(), 64),
        transform("LFCC", waveform(), RATE, 16, n_lfcc=8, speckwargs={"n_fft": 64, "hop_length": 32}),
        transform("Loudness", waveform(4000), RATE),
        transform("MFCC", waveform(), RATE, 8, melkwargs=mel),
        transform("MVDR", beam_inputs("specgram", "mask_s", "mask_n")),
        transform("MelScale", power(), 16, RATE, n_stft=33),
        transform("MelSpectrogram", waveform(), RATE, **mel),
        transform("MuLawDecoding", codes),
        transform("MuLawEncoding", waveform(200)),
        transform("PSD", beam_inputs("specgram", "mask")),
        transform("PitchShift", waveform(), RATE, 12, n_fft=64),
        transform("Preemphasis", waveform()),
        transform("RNNTLoss", rnnt_loss_inputs, reduction="none"),
        Entry("torchaudio", "RTFMVDR", "transform", RtfBeamformer, beam_inputs("specgram", "rtf", "psd_n"), BATCH),
        transform("Resample", waveform(), RATE, 6000),
        transform("SlidingWindowCmn", power(20, 33), 10, 5),
        Entry("torchaudio", "SoudenMVDR", "transform", lambda: Beamformer("SoudenMVDR"), beam_inputs("specgram", "psd_s", "psd_n"), BATCH),
        transform("SpecAugment", power(), 2, 5, 2, 6),
        transform("SpectralCentroid", waveform(), RATE, 64),
        transform("Spectrogram", waveform(), 64),
        transform("Speed", waveform(), RATE, 1.25),
        transform("SpeedPerturbation", waveform(), RATE, [0.8, 1.25]),
        transform("TimeMasking", power(), 5),
        transform("TimeStretch", spectrum(), 32, 33, 1.2),
        transform("Vad", waveform(4000), RATE),
        transform("Vol", waveform(), 0.7),
    ]  # fmt: skip


def entries() -> list[Entry]:
    return [*models(), *transforms()]
