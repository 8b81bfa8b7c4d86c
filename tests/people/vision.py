"""Images: blocks and small networks that classify, segment, detect and enlarge."""

from collections import OrderedDict
from enum import Enum
from functools import partial

import torch
import torch.nn as nn
import torch.nn.functional as F

from .entry import AXES, entry


class DoubleConv(nn.Module):
    """(convolution => [BN] => ReLU) * 2"""

    def __init__(self, in_channels, out_channels, mid_channels=None):
        super().__init__()
        if not mid_channels:
            mid_channels = out_channels
        self.double_conv = nn.Sequential(
            nn.Conv2d(in_channels, mid_channels, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(mid_channels),
            nn.ReLU(inplace=True),
            nn.Conv2d(mid_channels, out_channels, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(out_channels),
            nn.ReLU(inplace=True),
        )

    def forward(self, x):
        return self.double_conv(x)


class Down(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.maxpool_conv = nn.Sequential(nn.MaxPool2d(2), DoubleConv(in_channels, out_channels))

    def forward(self, x):
        return self.maxpool_conv(x)


class Up(nn.Module):
    def __init__(self, in_channels, out_channels, bilinear=True):
        super().__init__()
        if bilinear:
            self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
            self.conv = DoubleConv(in_channels, out_channels, in_channels // 2)
        else:
            self.up = nn.ConvTranspose2d(in_channels, in_channels // 2, kernel_size=2, stride=2)
            self.conv = DoubleConv(in_channels, out_channels)

    def forward(self, x1, x2):
        x1 = self.up(x1)
        diffY = x2.size()[2] - x1.size()[2]
        diffX = x2.size()[3] - x1.size()[3]
        x1 = F.pad(x1, [diffX // 2, diffX - diffX // 2, diffY // 2, diffY - diffY // 2])
        return self.conv(torch.cat([x2, x1], dim=1))


class UNet(nn.Module):
    def __init__(self, n_channels=3, n_classes=2, bilinear=False):
        super().__init__()
        factor = 2 if bilinear else 1
        self.inc = DoubleConv(n_channels, 4)
        self.down1 = Down(4, 8)
        self.down2 = Down(8, 16 // factor)
        self.up1 = Up(16, 8 // factor, bilinear)
        self.up2 = Up(8, 4, bilinear)
        self.outc = nn.Conv2d(4, n_classes, kernel_size=1)

    def forward(self, x):
        x1 = self.inc(x)
        x2 = self.down1(x1)
        x3 = self.down2(x2)
        x = self.up1(x3, x2)
        x = self.up2(x, x1)
        return self.outc(x)


class SEBlock(nn.Module):
    def __init__(self, c, r=4):
        super().__init__()
        self.squeeze = nn.AdaptiveAvgPool2d(1)
        self.excitation = nn.Sequential(nn.Linear(c, c // r, bias=False), nn.ReLU(inplace=True), nn.Linear(c // r, c, bias=False), nn.Sigmoid())

    def forward(self, x):
        bs, c, _, _ = x.shape
        y = self.squeeze(x).view(bs, c)
        y = self.excitation(y).view(bs, c, 1, 1)
        return x * y.expand_as(x)


class BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, in_planes, planes, stride=1, se=False):
        super().__init__()
        self.conv1 = nn.Conv2d(in_planes, planes, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.se = SEBlock(planes) if se else nn.Identity()
        self.shortcut = nn.Sequential()
        if stride != 1 or in_planes != self.expansion * planes:
            self.shortcut = nn.Sequential(
                nn.Conv2d(in_planes, self.expansion * planes, kernel_size=1, stride=stride, bias=False),
                nn.BatchNorm2d(self.expansion * planes),
            )

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.se(self.bn2(self.conv2(out)))
        out += self.shortcut(x)
        return F.relu(out)


class CifarResNet(nn.Module):
    def __init__(self, block, num_blocks, num_classes=10):
        super().__init__()
        self.in_planes = 8
        self.conv1 = nn.Conv2d(3, 8, kernel_size=3, stride=1, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.layer1 = self._make_layer(block, 8, num_blocks[0], stride=1)
        self.layer2 = self._make_layer(block, 16, num_blocks[1], stride=2)
        self.linear = nn.Linear(16 * block.expansion if hasattr(block, "expansion") else 16, num_classes)

    def _make_layer(self, block, planes, num_blocks, stride):
        strides = [stride] + [1] * (num_blocks - 1)
        layers = []
        for stride in strides:
            layers.append(block(self.in_planes, planes, stride))
            self.in_planes = planes
        return nn.Sequential(*layers)

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.layer2(self.layer1(out))
        out = F.avg_pool2d(out, 4)
        out = out.view(out.size(0), -1, 16).mean(1)
        return self.linear(out)


class ChannelGate(nn.Module):
    def __init__(self, channels, reduction=4, pool_types=("avg", "max")):
        super().__init__()
        self.mlp = nn.Sequential(nn.Flatten(), nn.Linear(channels, channels // reduction), nn.ReLU(), nn.Linear(channels // reduction, channels))
        self.pool_types = pool_types

    def forward(self, x):
        channel_att_sum = None
        for pool_type in self.pool_types:
            if pool_type == "avg":
                pooled = F.avg_pool2d(x, (x.size(2), x.size(3)), stride=(x.size(2), x.size(3)))
            elif pool_type == "max":
                pooled = F.max_pool2d(x, (x.size(2), x.size(3)), stride=(x.size(2), x.size(3)))
            else:
                raise NotImplementedError(pool_type)
            raw = self.mlp(pooled)
            channel_att_sum = raw if channel_att_sum is None else channel_att_sum + raw
        return x * torch.sigmoid(channel_att_sum).unsqueeze(2).unsqueeze(3).expand_as(x)


class CBAM(nn.Module):
    def __init__(self, channels=8):
        super().__init__()
        self.stem = nn.Conv2d(3, channels, 3)
        self.channel = ChannelGate(channels)
        self.spatial = nn.Conv2d(2, 1, 7, padding=3)

    def forward(self, x):
        x = self.channel(self.stem(x))
        compress = torch.cat((torch.max(x, 1)[0].unsqueeze(1), torch.mean(x, 1).unsqueeze(1)), dim=1)
        return x * torch.sigmoid(self.spatial(compress))


class GhostModule(nn.Module):
    def __init__(self, inp, oup, kernel_size=1, ratio=2, dw_size=3, relu=True):
        super().__init__()
        self.oup = oup
        init = -(-oup // ratio)
        new = init * (ratio - 1)
        self.primary_conv = nn.Sequential(
            nn.Conv2d(inp, init, kernel_size, 1, kernel_size // 2, bias=False),
            nn.BatchNorm2d(init),
            nn.ReLU(inplace=True) if relu else nn.Sequential(),
        )
        self.cheap_operation = nn.Sequential(
            nn.Conv2d(init, new, dw_size, 1, dw_size // 2, groups=init, bias=False),
            nn.BatchNorm2d(new),
            nn.ReLU(inplace=True) if relu else nn.Sequential(),
        )

    def forward(self, x):
        x1 = self.primary_conv(x)
        x2 = self.cheap_operation(x1)
        return torch.cat([x1, x2], dim=1)[:, : self.oup, :, :]


def conv_bn(i, o, **kw):
    return nn.Sequential(OrderedDict(conv=nn.Conv2d(i, o, bias=False, **kw), bn=nn.BatchNorm2d(o, eps=1e-3), act=nn.ReLU(True)))


class Inception(nn.Module):
    def __init__(self, cin=4):
        super().__init__()
        self.b1 = conv_bn(cin, 3, kernel_size=1)
        self.b2 = nn.Sequential(conv_bn(cin, 2, kernel_size=1), conv_bn(2, 4, kernel_size=3, padding=1))
        self.b3 = nn.Sequential(conv_bn(cin, 2, kernel_size=1), *[conv_bn(2, 2, kernel_size=3, padding=1) for _ in range(2)])
        self.b4 = nn.Sequential(nn.MaxPool2d(3, stride=1, padding=1, ceil_mode=True), conv_bn(cin, 2, kernel_size=1))

    def forward(self, x):
        return torch.cat([getattr(self, f"b{i}")(x) for i in range(1, 5)], 1)


class DenseLayer(nn.Sequential):
    def __init__(self, inp, growth):
        super().__init__()
        self.add_module("norm", nn.BatchNorm2d(inp))
        self.add_module("relu", nn.ReLU())
        self.add_module("conv", nn.Conv2d(inp, growth, 3, padding=1, bias=False))

    def forward(self, x):
        return torch.cat([x, super().forward(x)], 1)


class DenseNet(nn.Module):
    def __init__(self, growth=3, depth=3):
        super().__init__()
        layers = [("conv0", nn.Conv2d(3, 6, 3))]
        layers += [(f"dense{i}", DenseLayer(6 + i * growth, growth)) for i in range(depth)]
        self.features = nn.Sequential(OrderedDict(layers))
        self.classifier = nn.Linear(6 + depth * growth, 7)

    def forward(self, x):
        out = F.relu(self.features(x), inplace=True)
        return self.classifier(torch.flatten(F.adaptive_avg_pool2d(out, (1, 1)), 1))


class ESPCN(nn.Module):
    def __init__(self, scale_factor=3, num_channels=1):
        super().__init__()
        self.first_part = nn.Sequential(
            nn.Conv2d(num_channels, 16, kernel_size=5, padding=5 // 2), nn.Tanh(), nn.Conv2d(16, 8, 3, padding=1), nn.Tanh()
        )
        self.last_part = nn.Sequential(nn.Conv2d(8, num_channels * scale_factor**2, 3, padding=1), nn.PixelShuffle(scale_factor))

    def forward(self, x):
        return torch.clamp(self.last_part(self.first_part(x)), 0.0, 1.0)


class SRCNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 9, padding="same")
        self.conv2 = nn.Conv2d(8, 4, 1)
        self.conv3 = nn.Conv2d(4, 1, 5, padding="same", padding_mode="replicate")

    def forward(self, lr):
        x = F.interpolate(lr, scale_factor=2, mode="bicubic", align_corners=False)
        return x + self.conv3(F.relu(self.conv2(F.relu(self.conv1(x)))))


class FPN(nn.Module):
    def __init__(self, widths=(4, 8, 12), out=6):
        super().__init__()
        self.stem = nn.Conv2d(3, widths[0], 3, 2, 1)
        self.body = nn.ModuleList([nn.Conv2d(a, b, 3, stride=2, padding=1) for a, b in zip(widths, widths[1:])])
        self.inner = nn.ModuleList([nn.Conv2d(w, out, 1) for w in widths])
        self.layer = nn.ModuleList([nn.Conv2d(out, out, 3, padding=1) for w in widths])

    def forward(self, images):
        x = self.stem(images)
        feats = [x]
        for stage in self.body:
            feats.append(x := F.relu(stage(x)))
        last = self.inner[-1](feats[-1])
        results = [self.layer[-1](last)]
        for idx in range(len(feats) - 2, -1, -1):
            lateral = self.inner[idx](feats[idx])
            top_down = F.interpolate(last, size=lateral.shape[-2:], mode="nearest")
            last = lateral + top_down
            results.insert(0, self.layer[idx](last))
        return OrderedDict((f"p{i + 2}", r) for i, r in enumerate(results))


class Activation(Enum):
    RELU = "relu"
    HSWISH = "hswish"

    def build(self):
        return {Activation.RELU: partial(nn.ReLU, inplace=True), Activation.HSWISH: nn.Hardswish}[self]()


class MobileBlock(nn.Module):
    def __init__(self, inp, out, expand, stride, act: Activation):
        super().__init__()
        hidden = inp * expand
        self.use_res = stride == 1 and inp == out
        layers = []
        if expand != 1:
            layers += [nn.Conv2d(inp, hidden, 1, bias=False), nn.BatchNorm2d(hidden), act.build()]
        layers += [nn.Conv2d(hidden, hidden, 3, stride, 1, groups=hidden, bias=False), nn.BatchNorm2d(hidden), act.build()]
        layers += [nn.Conv2d(hidden, out, 1, bias=False), nn.BatchNorm2d(out)]
        self.conv = nn.Sequential(*layers)

    def forward(self, x):
        return x + self.conv(x) if self.use_res else self.conv(x)


class MobileNet(nn.Module):
    SETTINGS = [(1, 4, 1, 1, "relu"), (3, 6, 2, 2, "hswish"), (2, 8, 1, 2, "hswish")]

    def __init__(self):
        super().__init__()
        inp = 4
        features = [nn.Sequential(nn.Conv2d(3, inp, 3, 2, 1, bias=False), nn.BatchNorm2d(inp), nn.ReLU6())]
        for t, c, n, s, a in self.SETTINGS:
            for i in range(n):
                features.append(MobileBlock(inp, c, t, s if i == 0 else 1, Activation(a)))
                inp = c
        self.features = nn.Sequential(*features)
        self.head = nn.Sequential(nn.Dropout(0.2), nn.Linear(inp, 5))

    def forward(self, x):
        return self.head(self.features(x).mean([2, 3]))


MODELS = [
    entry("unet_transposed", UNet, "x=f32[batch,3,h,w]", dynamic=AXES, batch=2, h=(16, 8, 16, 21), w=(18, 9, 12, 24)),
    entry("unet_bilinear", lambda: UNet(bilinear=True), "x=f32[batch,3,16,18]", batch=2),
    entry("resnet_cifar", lambda: CifarResNet(BasicBlock, [2, 2]), "x=f32[batch,3,16,16]", batch=2),
    entry("resnet_se", lambda: CifarResNet(partial(BasicBlock, se=True), [1, 1]), "x=f32[batch,3,16,16]", batch=2),
    entry("cbam", CBAM, "x=f32[batch,3,12,10]", batch=2),
    entry(
        "ghost",
        lambda: nn.Sequential(GhostModule(3, 7), GhostModule(7, 8, relu=False)),
        "input=f32[batch,3,h,9]",
        dynamic=AXES,
        batch=2,
        h=(8, 5, 3, 12),
    ),
    entry("inception", Inception, "x=f32[batch,4,h,w]", dynamic=AXES, batch=2, h=(8, 5, 3, 12), w=(7, 3, 6, 9)),
    entry("densenet", DenseNet, "x=f32[batch,3,12,12]", batch=2),
    entry("espcn", ESPCN, "x=f32[batch,1,h,w]", dynamic=AXES, batch=2, h=(8, 5, 3, 12), w=(7, 3, 6, 9)),
    entry("srcnn", SRCNN, "lr=f32[batch,1,h,w]", dynamic=AXES, batch=2, h=(8, 5, 6, 12), w=(7, 5, 6, 9)),
    entry("fpn", FPN, "images=f32[batch,3,h,w]", dynamic=AXES, batch=2, h=(24, 9, 17, 32), w=(20, 12, 8, 25)),
    entry("mobilenet_enum", MobileNet, "x=f32[batch,3,24,24]", batch=2),
]
