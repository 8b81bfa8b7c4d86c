//! ResNet, ported from PyTorch by `pycandle codegen`.

use candle_core::{Result, Tensor};
use candle_nn::{batch_norm, linear, BatchNorm, Conv2d, Linear, Module, ModuleT, VarBuilder};
use pycandle::{nn, ops, py_check, PyChecker, Scoped};

/// BasicBlock, torchvision/models/resnet.py:59 (13 instances).
#[derive(Debug, Clone)]
pub struct BasicBlock {
    pub conv1: Conv2d,
    pub bn1: BatchNorm,
    pub conv2: Conv2d,
    pub bn2: BatchNorm,
    pub checker: Option<PyChecker>,
}

impl BasicBlock {
    pub fn load(vb: VarBuilder, channels: usize, checker: Option<PyChecker>) -> Result<Self> {
        Ok(Self {
            conv1: nn::conv2d_no_bias(channels, channels, 3, 1, 1, vb.pp("conv1"))?,
            bn1: batch_norm(channels, 1e-5, vb.pp("bn1"))?,
            conv2: nn::conv2d_no_bias(channels, channels, 3, 1, 1, vb.pp("conv2"))?,
            bn2: batch_norm(channels, 1e-5, vb.pp("bn2"))?,
            checker,
        })
    }

    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let out = py_check!(self.checker, "conv1", self.conv1.forward(x)?);
        let out = py_check!(self.checker, "bn1", self.bn1.forward_t(&out, false)?);
        let out = py_check!(self.checker, "conv2", self.conv2.forward(&out.relu()?)?);
        let out = py_check!(self.checker, "bn2", self.bn2.forward_t(&out, false)?);
        (&out + x)?.relu()
    }
}

/// nn.Sequential layer2.0.downsample (3 instances).
#[derive(Debug, Clone)]
pub struct Downsample {
    pub conv: Conv2d,
    pub norm: BatchNorm,
    pub checker: Option<PyChecker>,
}

impl Downsample {
    pub fn load(
        vb: VarBuilder,
        in_channels: usize,
        out_channels: usize,
        checker: Option<PyChecker>,
    ) -> Result<Self> {
        Ok(Self {
            conv: nn::conv2d_no_bias(in_channels, out_channels, 1, 2, 0, vb.pp("0"))?,
            norm: batch_norm(out_channels, 1e-5, vb.pp("1"))?,
            checker,
        })
    }

    pub fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let x = py_check!(self.checker, "0", self.conv.forward(input)?);
        let norm_output = py_check!(self.checker, "1", self.norm.forward_t(&x, false)?);
        Ok(norm_output)
    }
}

/// BasicBlock, torchvision/models/resnet.py:59 (3 instances).
#[derive(Debug, Clone)]
pub struct BasicBlockWithDownsample {
    pub conv1: Conv2d,
    pub bn1: BatchNorm,
    pub conv2: Conv2d,
    pub bn2: BatchNorm,
    pub downsample: Downsample,
    pub checker: Option<PyChecker>,
}

impl BasicBlockWithDownsample {
    pub fn load(
        vb: VarBuilder,
        in_channels: usize,
        channels: usize,
        checker: Option<PyChecker>,
    ) -> Result<Self> {
        Ok(Self {
            conv1: nn::conv2d_no_bias(in_channels, channels, 3, 2, 1, vb.pp("conv1"))?,
            bn1: batch_norm(channels, 1e-5, vb.pp("bn1"))?,
            conv2: nn::conv2d_no_bias(channels, channels, 3, 1, 1, vb.pp("conv2"))?,
            bn2: batch_norm(channels, 1e-5, vb.pp("bn2"))?,
            downsample: Downsample::load(
                vb.pp("downsample"),
                in_channels,
                channels,
                checker.pp("downsample"),
            )?,
            checker,
        })
    }

    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let out = py_check!(self.checker, "conv1", self.conv1.forward(x)?);
        let out = py_check!(self.checker, "bn1", self.bn1.forward_t(&out, false)?);
        let out = py_check!(self.checker, "conv2", self.conv2.forward(&out.relu()?)?);
        let out = py_check!(self.checker, "bn2", self.bn2.forward_t(&out, false)?);
        let identity = py_check!(self.checker, "downsample", self.downsample.forward(x)?);
        (&out + &identity)?.relu()
    }
}

/// nn.Sequential layer2 (3 instances).
#[derive(Debug, Clone)]
pub struct Layer {
    pub first: BasicBlockWithDownsample,
    pub blocks: Vec<BasicBlock>,
    pub checker: Option<PyChecker>,
}

impl Layer {
    pub fn load(
        vb: VarBuilder,
        in_channels: usize,
        channels: usize,
        count: usize,
        checker: Option<PyChecker>,
    ) -> Result<Self> {
        Ok(Self {
            first: BasicBlockWithDownsample::load(
                vb.pp("0"),
                in_channels,
                channels,
                checker.pp("0"),
            )?,
            blocks: (0..count)
                .map(|i| BasicBlock::load(vb.pp(i + 1), channels, checker.pp(i + 1)))
                .collect::<Result<_>>()?,
            checker,
        })
    }

    pub fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let mut x = py_check!(self.checker, "0", self.first.forward(input)?);
        for (i, block) in self.blocks.iter().enumerate() {
            x = py_check!(self.checker, i + 1, block.forward(&x)?);
        }
        Ok(x)
    }
}

/// ResNet, torchvision/models/resnet.py:166.
#[derive(Debug, Clone)]
pub struct ResNet {
    pub conv1: Conv2d,
    pub bn1: BatchNorm,
    pub layer1: Vec<BasicBlock>,
    pub layer2: Layer,
    pub layer3: Layer,
    pub layer4: Layer,
    pub fc: Linear,
    pub checker: Option<PyChecker>,
}

impl ResNet {
    pub fn load(vb: VarBuilder, checker: Option<PyChecker>) -> Result<Self> {
        Ok(Self {
            conv1: nn::conv2d_no_bias(3, 64, 7, 2, 3, vb.pp("conv1"))?,
            bn1: batch_norm(64, 1e-5, vb.pp("bn1"))?,
            layer1: (0..3)
                .map(|i| {
                    BasicBlock::load(
                        vb.pp(format!("layer1.{i}")),
                        64,
                        checker.pp(format!("layer1.{i}")),
                    )
                })
                .collect::<Result<_>>()?,
            layer2: Layer::load(vb.pp("layer2"), 64, 128, 3, checker.pp("layer2"))?,
            layer3: Layer::load(vb.pp("layer3"), 128, 256, 5, checker.pp("layer3"))?,
            layer4: Layer::load(vb.pp("layer4"), 256, 512, 2, checker.pp("layer4"))?,
            fc: linear(512, 1000, vb.pp("fc"))?,
            checker,
        })
    }

    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let x = py_check!(self.checker, "conv1", self.conv1.forward(x)?);
        let x = py_check!(self.checker, "bn1", self.bn1.forward_t(&x, false)?);
        let mut x = ops::max_pool2d(&x.relu()?, 3, 2, 1)?;
        for (i, block) in self.layer1.iter().enumerate() {
            x = py_check!(self.checker, format!("layer1.{i}"), block.forward(&x)?);
        }
        let x = py_check!(self.checker, "layer2", self.layer2.forward(&x)?);
        let x = py_check!(self.checker, "layer3", self.layer3.forward(&x)?);
        let x = py_check!(self.checker, "layer4", self.layer4.forward(&x)?);
        let x = self
            .fc
            .forward(&ops::adaptive_avg_pool(&x, &[1, 1])?.flatten_from(1)?)?;
        py_check!(self.checker, "fc", &x);
        Ok(x)
    }
}
