"""Sound, spectra and complex numbers."""

import math
from functools import reduce

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

from .entry import AXES, entry


class CausalConv1d(nn.Conv1d):
    def __init__(self, in_channels, out_channels, kernel_size, dilation=1, **kwargs):
        self.left = (kernel_size - 1) * dilation
        super().__init__(in_channels, out_channels, kernel_size, dilation=dilation, **kwargs)

    def forward(self, x):
        return super().forward(F.pad(x, (self.left, 0)))


class WaveNet(nn.Module):
    def __init__(self, channels=6, skip=8, layers=3, blocks=2, classes=16):
        super().__init__()
        self.embed = nn.Embedding(classes, channels)
        self.dilations = [2**i for i in range(layers)] * blocks
        self.filter_convs = nn.ModuleList([CausalConv1d(channels, channels, 2, d) for d in self.dilations])
        self.gate_convs = nn.ModuleList([CausalConv1d(channels, channels, 2, d) for d in self.dilations])
        self.residual_convs = nn.ModuleList([nn.Conv1d(channels, channels, 1) for _ in self.dilations])
        self.skip_convs = nn.ModuleList([nn.Conv1d(channels, skip, 1) for _ in self.dilations])
        self.end1, self.end2 = nn.Conv1d(skip, skip, 1), nn.Conv1d(skip, classes, 1)

    @property
    def receptive_field(self):
        return 1 + sum(self.dilations)

    def forward(self, wave):
        x = self.embed(wave).transpose(1, 2)
        skip = 0
        for f, g, r, s in zip(self.filter_convs, self.gate_convs, self.residual_convs, self.skip_convs):
            residual = x
            x = torch.tanh(f(x)) * torch.sigmoid(g(x))
            skip = s(x) + skip
            x = r(x) + residual
        return self.end2(F.relu(self.end1(F.relu(skip))))


class Chomp1d(nn.Module):
    def __init__(self, chomp_size):
        super().__init__()
        self.chomp_size = chomp_size

    def forward(self, x):
        return x[:, :, : -self.chomp_size].contiguous()


class TemporalBlock(nn.Module):
    def __init__(self, n_inputs, n_outputs, kernel_size, stride, dilation, padding, dropout=0.2):
        super().__init__()
        self.conv1 = torch.nn.utils.parametrizations.weight_norm(
            nn.Conv1d(n_inputs, n_outputs, kernel_size, stride=stride, padding=padding, dilation=dilation)
        )
        self.conv2 = torch.nn.utils.parametrizations.weight_norm(
            nn.Conv1d(n_outputs, n_outputs, kernel_size, stride=stride, padding=padding, dilation=dilation)
        )
        self.net = nn.Sequential(
            self.conv1, Chomp1d(padding), nn.ReLU(), nn.Dropout(dropout), self.conv2, Chomp1d(padding), nn.ReLU(), nn.Dropout(dropout)
        )
        self.downsample = nn.Conv1d(n_inputs, n_outputs, 1) if n_inputs != n_outputs else None
        self.relu = nn.ReLU()

    def forward(self, x):
        out = self.net(x)
        res = x if self.downsample is None else self.downsample(x)
        return self.relu(out + res)


class TCN(nn.Module):
    def __init__(self, num_inputs=3, num_channels=(4, 4, 6), kernel_size=3):
        super().__init__()
        layers = []
        for i in range(len(num_channels)):
            dilation_size = 2**i
            in_channels = num_inputs if i == 0 else num_channels[i - 1]
            layers += [TemporalBlock(in_channels, num_channels[i], kernel_size, 1, dilation_size, (kernel_size - 1) * dilation_size)]
        self.network = nn.Sequential(*layers)
        self.linear = nn.Linear(num_channels[-1], 2)

    def forward(self, x):
        return self.linear(self.network(x)[:, :, -1])


class STFTDenoiser(nn.Module):
    def __init__(self, n_fft=32, hop=8):
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.register_buffer("window", torch.hann_window(n_fft))
        bins = n_fft // 2 + 1
        self.rnn = nn.GRU(bins, 12, batch_first=True)
        self.mask = nn.Linear(12, bins)

    def forward(self, wav):
        spec = torch.stft(wav, self.n_fft, self.hop, window=self.window, return_complex=True)
        mag, phase = spec.abs(), torch.angle(spec)
        h, _ = self.rnn(torch.log1p(mag).transpose(1, 2))
        m = torch.sigmoid(self.mask(h)).transpose(1, 2)
        clean = torch.polar(mag * m, phase)
        return torch.istft(clean, self.n_fft, self.hop, window=self.window, length=wav.shape[-1])


def mel_filterbank(sr, n_fft, n_mels):
    hz_to_mel = lambda f: 2595.0 * np.log10(1.0 + f / 700.0)
    mel_to_hz = lambda m: 700.0 * (10.0 ** (m / 2595.0) - 1.0)
    points = mel_to_hz(np.linspace(hz_to_mel(0), hz_to_mel(sr / 2), n_mels + 2))
    bins = np.floor((n_fft + 1) * points / sr).astype(int)
    fb = np.zeros((n_mels, n_fft // 2 + 1))
    for m in range(1, n_mels + 1):
        left, center, right = bins[m - 1 : m + 2]
        for k in range(left, center):
            fb[m - 1, k] = (k - left) / (center - left)
        for k in range(center, right):
            fb[m - 1, k] = (right - k) / (right - center)
    return torch.from_numpy(fb).float()


class MFCC(nn.Module):
    """Frames, a window, the power spectrum, mel bands, a cosine transform: all by hand."""

    def __init__(self, sr=8000, n_fft=64, hop=32, n_mels=8, n_mfcc=5):
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.register_buffer("fb", mel_filterbank(sr, n_fft, n_mels))
        self.register_buffer("win", 0.54 - 0.46 * torch.cos(2 * math.pi * torch.arange(n_fft) / (n_fft - 1)), persistent=False)
        n = torch.arange(float(n_mels))
        dct = torch.cos(math.pi / n_mels * (n + 0.5) * torch.arange(float(n_mfcc)).unsqueeze(1)) * math.sqrt(2.0 / n_mels)
        dct[0] *= 1.0 / math.sqrt(2.0)
        self.register_buffer("dct", dct)
        self.scale = nn.Parameter(torch.ones(n_mfcc))

    def forward(self, x):
        x = torch.cat([x[:, :1], x[:, 1:] - 0.97 * x[:, :-1]], dim=1)
        frames = x.unfold(-1, self.n_fft, self.hop) * self.win
        power = torch.fft.rfft(frames).abs().pow(2) / self.n_fft
        mel = power @ self.fb.T
        db = 10.0 * torch.log10(torch.clamp(mel, min=1e-10))
        db = torch.maximum(db, db.amax(dim=(-2, -1), keepdim=True) - 80.0)
        return db @ self.dct.T * self.scale


class SpectralConv2d(nn.Module):
    def __init__(self, in_channels, out_channels, modes1, modes2):
        super().__init__()
        self.modes1, self.modes2 = modes1, modes2
        self.scale = 1 / (in_channels * out_channels)
        shape = in_channels, out_channels, modes1, modes2
        self.weights1 = nn.Parameter(self.scale * torch.rand(*shape, dtype=torch.cfloat))
        self.weights2 = nn.Parameter(self.scale * torch.rand(*shape, dtype=torch.cfloat))

    def compl_mul2d(self, input, weights):
        return torch.einsum("bixy,ioxy->boxy", input, weights)

    def forward(self, x):
        batchsize = x.shape[0]
        x_ft = torch.fft.rfft2(x)
        out_ft = torch.zeros(batchsize, self.weights1.shape[1], x.size(-2), x.size(-1) // 2 + 1, dtype=torch.cfloat, device=x.device)
        out_ft[:, :, : self.modes1, : self.modes2] = self.compl_mul2d(x_ft[:, :, : self.modes1, : self.modes2], self.weights1)
        out_ft[:, :, -self.modes1 :, : self.modes2] = self.compl_mul2d(x_ft[:, :, -self.modes1 :, : self.modes2], self.weights2)
        return torch.fft.irfft2(out_ft, s=(x.size(-2), x.size(-1)))


class FNO2d(nn.Module):
    def __init__(self, modes=3, width=4, depth=2):
        super().__init__()
        self.padding = 2
        self.p = nn.Linear(3, width)
        self.convs = nn.ModuleList([SpectralConv2d(width, width, modes, modes) for _ in range(depth)])
        self.ws = nn.ModuleList([nn.Conv2d(width, width, 1) for _ in range(depth)])
        self.q = nn.Linear(width, 1)

    def get_grid(self, shape, device):
        batchsize, size_x, size_y = shape[0], shape[1], shape[2]
        gridx = torch.linspace(0, 1, size_x).reshape(1, size_x, 1, 1).repeat([batchsize, 1, size_y, 1])
        gridy = torch.linspace(0, 1, size_y).reshape(1, 1, size_y, 1).repeat([batchsize, size_x, 1, 1])
        return torch.cat((gridx, gridy), dim=-1).to(device)

    def forward(self, x):
        x = torch.cat((x, self.get_grid(x.shape, x.device)), dim=-1)
        x = self.p(x).permute(0, 3, 1, 2)
        x = F.pad(x, [0, self.padding, 0, self.padding])
        for i, (conv, w) in enumerate(zip(self.convs, self.ws)):
            x = conv(x) + w(x)
            if i < len(self.convs) - 1:
                x = F.gelu(x)
        x = x[..., : -self.padding, : -self.padding]
        return self.q(x.permute(0, 2, 3, 1))


class ComplexLinear(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(o, i, dtype=torch.complex64) / math.sqrt(i))
        self.bias = nn.Parameter(torch.zeros(o, dtype=torch.complex64))

    def forward(self, z):
        return z @ self.weight.T + self.bias


def mod_relu(z, b):
    return F.relu(z.abs() + b) * torch.exp(1j * z.angle())


class ComplexNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1, self.l2 = ComplexLinear(4, 6), ComplexLinear(6, 3)
        self.b = nn.Parameter(torch.full((6,), -0.1))

    def forward(self, re, im):
        z = torch.complex(re, im)
        z = self.l2(mod_relu(self.l1(z), self.b))
        gram = z.conj() @ z.mT
        return z, gram.real, (z * z.conj()).real.sqrt()


class QuaternionLayer(nn.Module):
    """Hamilton products with learnt unit quaternions, then rotated vectors."""

    def __init__(self, n=3):
        super().__init__()
        self.q = nn.Parameter(torch.randn(n, 4))

    @staticmethod
    def hamilton(p, q):
        a1, b1, c1, d1 = p.unbind(-1)
        a2, b2, c2, d2 = torch.unbind(q, dim=-1)
        return torch.stack(
            (
                a1 * a2 - b1 * b2 - c1 * c2 - d1 * d2,
                a1 * b2 + b1 * a2 + c1 * d2 - d1 * c2,
                a1 * c2 - b1 * d2 + c1 * a2 + d1 * b2,
                a1 * d2 + b1 * c2 - c1 * b2 + d1 * a2,
            ),
            dim=-1,
        )

    def forward(self, v):
        q = F.normalize(self.q, dim=-1)
        conj = q * torch.tensor([1.0, -1.0, -1.0, -1.0])
        pure = F.pad(v, (1, 0))
        total = reduce(self.hamilton, q)
        return self.hamilton(self.hamilton(q[None], pure), conj[None])[..., 1:], total


class RawCNN(nn.Module):
    """Keyword spotting on raw waveforms (M5)."""

    def __init__(self, n_output=5, stride=4, n_channel=6):
        super().__init__()
        self.conv1 = nn.Conv1d(1, n_channel, kernel_size=16, stride=stride)
        self.bn1 = nn.BatchNorm1d(n_channel)
        self.pool1 = nn.MaxPool1d(2)
        self.conv2 = nn.Conv1d(n_channel, 2 * n_channel, kernel_size=3)
        self.bn2 = nn.BatchNorm1d(2 * n_channel)
        self.fc1 = nn.Linear(2 * n_channel, n_output)

    def forward(self, x):
        x = self.pool1(F.relu(self.bn1(self.conv1(x))))
        x = F.relu(self.bn2(self.conv2(x)))
        x = F.avg_pool1d(x, x.shape[-1])
        x = self.fc1(x.permute(0, 2, 1))
        return F.log_softmax(x, dim=2)


MODELS = [
    entry("wavenet", WaveNet, "wave=i64[batch,seq]<16", batch=2, seq=20),
    entry("tcn", TCN, "x=f32[batch,3,time]", dynamic=AXES, batch=2, time=(20, 5, 9, 33)),
    entry("stft_denoiser", STFTDenoiser, "wav=f32[batch,160]", batch=2),
    entry("mfcc_by_hand", MFCC, "x=f32[batch,samples]", dynamic=AXES, batch=2, samples=(256, 100, 64, 333)),
    entry("fourier_operator", FNO2d, "x=f32[batch,8,10,1]", batch=2),
    entry("complex_network", ComplexNet, "re=f32[batch,4] im=f32[batch,4]", batch=3),
    entry("quaternions", QuaternionLayer, "v=f32[batch,3,3]", batch=2, constant=("output.1",)),
    entry("raw_audio_cnn", RawCNN, "x=f32[batch,1,200]", batch=2),
]
