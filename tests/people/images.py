"""Images again: adversarial networks, warps, keypoints, capsules, deformable sampling."""

import functools
from typing import Optional, Sequence

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils import parametrizations, parametrize

from .entry import AXES, entry


class UnetSkipConnectionBlock(nn.Module):
    """pix2pix's generator, block in block."""

    def __init__(self, outer_nc, inner_nc, input_nc=None, submodule=None, outermost=False, innermost=False, norm_layer=nn.BatchNorm2d):
        super(UnetSkipConnectionBlock, self).__init__()
        self.outermost = outermost
        if type(norm_layer) == functools.partial:
            use_bias = norm_layer.func == nn.InstanceNorm2d
        else:
            use_bias = norm_layer == nn.InstanceNorm2d
        if input_nc is None:
            input_nc = outer_nc
        downconv = nn.Conv2d(input_nc, inner_nc, kernel_size=4, stride=2, padding=1, bias=use_bias)
        downrelu = nn.LeakyReLU(0.2, True)
        downnorm = norm_layer(inner_nc)
        uprelu = nn.ReLU(True)
        upnorm = norm_layer(outer_nc)
        if outermost:
            upconv = nn.ConvTranspose2d(inner_nc * 2, outer_nc, kernel_size=4, stride=2, padding=1)
            model = [downconv] + [submodule] + [uprelu, upconv, nn.Tanh()]
        elif innermost:
            upconv = nn.ConvTranspose2d(inner_nc, outer_nc, kernel_size=4, stride=2, padding=1, bias=use_bias)
            model = [downrelu, downconv] + [uprelu, upconv, upnorm]
        else:
            upconv = nn.ConvTranspose2d(inner_nc * 2, outer_nc, kernel_size=4, stride=2, padding=1, bias=use_bias)
            model = [downrelu, downconv, downnorm] + [submodule] + [uprelu, upconv, upnorm] + [nn.Dropout(0.5)]
        self.model = nn.Sequential(*model)

    def forward(self, x):
        if self.outermost:
            return self.model(x)
        else:
            return torch.cat([x, self.model(x)], 1)


def pix2pix():
    norm = functools.partial(nn.BatchNorm2d, affine=True, track_running_stats=True)
    block = UnetSkipConnectionBlock(8, 8, innermost=True, norm_layer=norm)
    block = UnetSkipConnectionBlock(4, 8, submodule=block, norm_layer=norm)
    return UnetSkipConnectionBlock(3, 4, input_nc=3, submodule=block, outermost=True, norm_layer=norm)


class ResnetBlock(nn.Module):
    def __init__(self, dim, padding_type, norm_layer):
        super().__init__()
        conv_block, p = [], 0
        if padding_type == "reflect":
            conv_block += [nn.ReflectionPad2d(1)]
        elif padding_type == "zero":
            p = 1
        else:
            raise NotImplementedError("padding [%s] is not implemented" % padding_type)
        conv_block += [nn.Conv2d(dim, dim, 3, padding=p), norm_layer(dim), nn.ReLU(True)]
        self.conv_block = nn.Sequential(*conv_block)

    def forward(self, x):
        out = x + self.conv_block(x)
        return out


class CycleGAN(nn.Module):
    """Both generators and the discriminators' opinions, there and back."""

    def __init__(self):
        super().__init__()
        norm_layer = functools.partial(nn.InstanceNorm2d, affine=False, track_running_stats=False)
        self.netG = nn.ModuleDict({k: self.generator(norm_layer) for k in ("A", "B")})
        self.netD_A = self.discriminator(norm_layer)
        self.netD_B = self.discriminator(norm_layer)

    @staticmethod
    def generator(norm, ngf=4):
        model = [nn.ReflectionPad2d(3), nn.Conv2d(3, ngf, kernel_size=7), norm(ngf), nn.ReLU(True)]
        model += [nn.Conv2d(ngf, ngf * 2, kernel_size=3, stride=2, padding=1), norm(ngf * 2), nn.ReLU(True)]
        for i in range(2):
            model += [ResnetBlock(ngf * 2, padding_type="reflect", norm_layer=norm)]
        model += [nn.ConvTranspose2d(ngf * 2, ngf, kernel_size=3, stride=2, padding=1, output_padding=1), norm(ngf), nn.ReLU(True)]
        model += [nn.ReflectionPad2d(3), nn.Conv2d(ngf, 3, kernel_size=7, padding=0), nn.Tanh()]
        return nn.Sequential(*model)

    @staticmethod
    def discriminator(norm, ndf=4):
        sequence = [nn.Conv2d(3, ndf, 4, 2, 1), nn.LeakyReLU(0.2, True), nn.Conv2d(ndf, ndf * 2, 4, 1, 1), norm(ndf * 2), nn.LeakyReLU(0.2, True)]
        return nn.Sequential(*sequence, nn.Conv2d(ndf * 2, 1, kernel_size=4, stride=1, padding=1))

    def forward(self, real_A):
        self.real_A = real_A
        self.fake_B = self.netG["A"](self.real_A)
        self.rec_A = self.netG["B"](self.fake_B)
        return self.fake_B, self.rec_A, self.netD_A(self.fake_B), self.netD_B(self.rec_A)


class SNDiscriminator(nn.Module):
    def __init__(self):
        super().__init__()
        sn = lambda m: parametrizations.spectral_norm(m, n_power_iterations=1)
        self.conv1, self.conv2 = sn(nn.Conv2d(3, 6, 3, stride=2)), sn(nn.Conv2d(6, 8, 3, stride=2))
        self.fc, self.embed = sn(nn.Linear(8, 1)), sn(nn.Embedding(4, 8))

    def forward(self, x, y):
        h = F.leaky_relu(self.conv2(F.leaky_relu(self.conv1(x), 0.1)), 0.1)
        h = torch.sum(h, dim=(2, 3))
        return self.fc(h) + torch.sum(self.embed(y) * h, dim=1, keepdim=True)


class Symmetric(nn.Module):
    def forward(self, X):
        return X.triu() + X.triu(1).transpose(-1, -2)


class Parametrized(nn.Module):
    """Parametrizations of one's own, stacked, and torch's orthogonal one."""

    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.s = nn.Parameter(torch.tensor(1.5))

        def forward(self, X):
            return X * self.s

    def __init__(self):
        super().__init__()
        self.sym = nn.Linear(4, 4)
        parametrize.register_parametrization(self.sym, "weight", Symmetric())
        parametrize.register_parametrization(self.sym, "weight", self.Scale())
        self.old = nn.utils.weight_norm(nn.Linear(4, 3), name="weight")

    def forward(self, x):
        return self.old(torch.tanh(self.sym(x)))


class StyleBlock(nn.Module):
    """StyleGAN2's modulated convolution: a grouped convolution over the batch."""

    def __init__(self, cin=4, cout=5, w_dim=6, demodulate=True):
        super().__init__()
        self.affine = nn.Linear(w_dim, cin)
        self.weight = nn.Parameter(torch.randn(cout, cin, 3, 3))
        self.noise_strength = nn.Parameter(torch.tensor(0.1))
        self.register_buffer("noise_const", torch.randn(8, 8))
        self.demodulate = demodulate

    def forward(self, x, w):
        b, c, h, wd = x.shape
        s = self.affine(w) + 1
        weight = self.weight[None] * s[:, None, :, None, None]
        if self.demodulate:
            weight = weight * torch.rsqrt(weight.square().sum([2, 3, 4], keepdim=True) + 1e-8)
        x = x.reshape(1, -1, h, wd)
        y = F.conv2d(x, weight.reshape(-1, c, 3, 3), padding=1, groups=b)
        y = y.reshape(b, -1, h, wd) + self.noise_const * self.noise_strength
        return F.leaky_relu(y, 0.2) * 2**0.5


class STN(nn.Module):
    def __init__(self):
        super().__init__()
        self.localization = nn.Sequential(nn.Conv2d(1, 4, kernel_size=5), nn.MaxPool2d(2, stride=2), nn.ReLU(True))
        self.fc_loc = nn.Sequential(nn.Linear(4 * 4 * 4, 8), nn.ReLU(True), nn.Linear(8, 3 * 2))
        self.fc_loc[2].weight.data.zero_()
        self.fc_loc[2].bias.data.copy_(torch.tensor([1, 0, 0, 0, 1, 0], dtype=torch.float))

    def stn(self, x):
        xs = self.localization(x)
        xs = xs.view(-1, 4 * 4 * 4)
        theta = self.fc_loc(xs)
        theta = theta.view(-1, 2, 3)
        grid = F.affine_grid(theta, x.size(), align_corners=False)
        return F.grid_sample(x, grid, align_corners=False)

    def forward(self, x):
        return self.stn(x)


def warp(x, flo):
    B, C, H, W = x.size()
    xx = torch.arange(0, W).view(1, -1).repeat(H, 1)
    yy = torch.arange(0, H).view(-1, 1).repeat(1, W)
    xx = xx.view(1, 1, H, W).repeat(B, 1, 1, 1)
    yy = yy.view(1, 1, H, W).repeat(B, 1, 1, 1)
    vgrid = torch.cat((xx, yy), 1).float() + flo
    gx = 2.0 * vgrid[:, 0, :, :] / max(W - 1, 1) - 1.0
    gy = 2.0 * vgrid[:, 1, :, :] / max(H - 1, 1) - 1.0
    output = F.grid_sample(x, torch.stack([gx, gy], dim=-1), mode="bilinear", padding_mode="border", align_corners=True)
    return output


class FlowNet(nn.Module):
    """A cost volume by shifts, a flow from it, a warp by the flow."""

    def __init__(self, c=4, md=1):
        super().__init__()
        self.feat = nn.Conv2d(3, c, 3, padding=1)
        self.md = md
        self.flow = nn.Conv2d((2 * md + 1) ** 2, 2, 3, padding=1)

    def forward(self, img1, img2):
        f1, f2 = (F.leaky_relu(self.feat(i), 0.1) for i in (img1, img2))
        padded = F.pad(f2, [self.md] * 4)
        h, w = f1.shape[-2:]
        cost = torch.cat(
            [(f1 * padded[:, :, i : i + h, j : j + w]).mean(1, keepdim=True) for i in range(2 * self.md + 1) for j in range(2 * self.md + 1)], 1
        )
        flow = self.flow(cost)
        return flow, warp(img2, flow)


class Keypoints(nn.Module):
    """Heatmaps and their soft-argmax in pixels."""

    def __init__(self, k=3):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 6, 3, 2, 1), nn.ReLU(), nn.ConvTranspose2d(6, k, 4, 2, 1))
        self.beta = nn.Parameter(torch.tensor(10.0))

    def forward(self, x):
        hm = self.net(x)
        n, k, h, w = hm.shape
        p = F.softmax(self.beta * hm.view(n, k, -1), dim=-1).view(n, k, h, w)
        ys, xs = torch.meshgrid(torch.linspace(0, h - 1, h), torch.linspace(0, w - 1, w), indexing="ij")
        coords = torch.stack([(p * xs).sum((2, 3)), (p * ys).sum((2, 3))], dim=-1)
        peak = hm.flatten(2).argmax(-1)
        return coords, torch.stack([peak % w, torch.div(peak, w, rounding_mode="floor")], -1)


class DeformableLike(nn.Module):
    """Offsets, rounded to pixels, gathered."""

    def __init__(self, c=4):
        super().__init__()
        self.offset = nn.Conv2d(c, 2, 3, padding=1)
        self.out = nn.Conv2d(c, c, 1)

    def forward(self, x):
        b, c, h, w = x.shape
        off = self.offset(x).round().long()
        ys = (torch.arange(h)[:, None] + off[:, 0]).clamp(0, h - 1)
        xs = (torch.arange(w)[None, :] + off[:, 1]).clamp(0, w - 1)
        idx = (ys * w + xs).flatten(1)
        moved = x.flatten(2).gather(2, idx.unsqueeze(1).expand(-1, c, -1)).view_as(x)
        return self.out(moved)


def squash(s, dim=-1):
    mag_sq = torch.sum(s**2, dim=dim, keepdim=True)
    mag = torch.sqrt(mag_sq + 1e-8)
    return (mag_sq / (1.0 + mag_sq)) * (s / mag)


class CapsNet(nn.Module):
    def __init__(self, routing=3):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 5)
        self.primary = nn.Conv2d(8, 8, 3, stride=2)
        self.W = nn.Parameter(torch.randn(3, 18, 6, 4) * 0.3)
        self.routing = routing

    def forward(self, x):
        u = self.primary(F.relu(self.conv(x)))
        u = squash(u.view(u.size(0), 18, -1))
        u_hat = torch.matmul(self.W, u[:, None, :, :, None]).squeeze(-1)
        b = torch.zeros(*u_hat.size()[:3], 1)
        for it in range(self.routing):
            c = F.softmax(b, dim=1)
            v = squash((c * u_hat).sum(dim=2))
            if it < self.routing - 1:
                b = b + torch.matmul(u_hat.detach(), v.unsqueeze(-1))
        return torch.norm(v, dim=-1), v


class MultiScale(nn.Module):
    """ASPP with a list of rates and an optional head."""

    def __init__(self, rates: Sequence[int] = (1, 2, 3), aux: Optional[int] = None):
        super().__init__()
        self.branches = nn.ModuleList(nn.Conv2d(3, 4, 3, padding=r, dilation=r, bias=False) for r in rates)
        self.pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(3, 4, 1))
        self.head = nn.Conv2d(4 * (len(rates) + 1), 2, 1)
        if aux is not None:
            self.aux = nn.Conv2d(3, aux, 1)

    def forward(self, x):
        size = x.shape[-2:]
        res = [F.relu(b(x)) for b in self.branches]
        res.append(F.interpolate(self.pool(x), size=size, mode="bilinear", align_corners=False))
        out = {"out": self.head(torch.cat(res, dim=1))}
        if hasattr(self, "aux"):
            out["aux"] = self.aux(x)
        return out


MODELS = [
    entry("pix2pix", pix2pix, "x=f32[batch,3,16,16]", batch=2),
    entry("cyclegan", CycleGAN, "real_A=f32[batch,3,h,12]", dynamic=AXES, batch=2, h=(12, 16, 20, 24)),
    entry("spectral_norm", SNDiscriminator, "x=f32[batch,3,12,12] y=i64[batch]<4", batch=2),
    entry("parametrizations", Parametrized, "x=f32[batch,4]", batch=3),
    entry("stylegan_modulation", StyleBlock, "x=f32[batch,4,8,8] w=f32[batch,6]", batch=2, fixed=("batch",), note="one group a row fixes the batch"),
    entry("spatial_transformer", STN, "x=f32[batch,1,12,12]", batch=2),
    entry("optical_flow", FlowNet, "img1=f32[batch,3,h,w] img2=f32[batch,3,h,w]", dynamic=AXES, batch=2, h=(7, 3, 5, 9), w=(8, 6, 4, 12)),
    entry("keypoints", Keypoints, "x=f32[batch,3,h,w]", dynamic=AXES, batch=2, h=(8, 4, 6, 12), w=(10, 6, 4, 16)),
    entry("deformable_gather", DeformableLike, "x=f32[batch,4,h,w]", dynamic=AXES, batch=2, h=(7, 3, 5, 9), w=(8, 6, 4, 12)),
    entry("capsules", CapsNet, "x=f32[batch,1,11,11]", batch=2),
    entry("aspp", MultiScale, "x=f32[batch,3,h,w]", dynamic=AXES, batch=2, h=(7, 3, 5, 9), w=(8, 6, 4, 12)),
    entry("aspp_aux", lambda: MultiScale(rates=[2, 4], aux=3), "x=f32[batch,3,9,8]", batch=2),
]
