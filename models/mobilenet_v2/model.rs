//! MobileNetV2, ported from PyTorch by `pycandle codegen`.

use candle_core::{Result, Tensor};
use candle_nn::{
    batch_norm, conv2d_no_bias, linear, BatchNorm, Conv2d, Conv2dConfig, Linear, Module, ModuleT,
    VarBuilder,
};
use pycandle::{ops, py_check, PyChecker, Scoped};

/// Conv2dNormActivation, torchvision/ops/misc.py:126 (35 instances).
#[derive(Debug, Clone)]
pub struct Conv2dNormActivation {
    pub conv: Conv2d,
    pub norm: BatchNorm,
    pub checker: Option<PyChecker>,
}

impl Conv2dNormActivation {
    #[allow(clippy::too_many_arguments)]
    pub fn load(
        vb: VarBuilder,
        in_channels: usize,
        out_channels: usize,
        kernel_size: usize,
        stride: usize,
        padding: usize,
        groups: usize,
        checker: Option<PyChecker>,
    ) -> Result<Self> {
        Ok(Self {
            conv: conv2d_no_bias(
                in_channels,
                out_channels,
                kernel_size,
                Conv2dConfig {
                    stride,
                    padding,
                    groups,
                    ..Default::default()
                },
                vb.pp("0"),
            )?,
            norm: batch_norm(out_channels, 1e-5, vb.pp("1"))?,
            checker,
        })
    }

    pub fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let x = py_check!(self.checker, "0", self.conv.forward(input)?);
        let x = py_check!(self.checker, "1", self.norm.forward_t(&x, false)?);
        ops::clamp(&x, Some(0.0), Some(6.0))
    }
}

/// nn.Sequential classifier.
#[derive(Debug, Clone)]
pub struct Classifier {
    pub linear: Linear,
    pub checker: Option<PyChecker>,
}

impl Classifier {
    pub fn load(vb: VarBuilder, checker: Option<PyChecker>) -> Result<Self> {
        Ok(Self {
            linear: linear(1280, 1000, vb.pp("1"))?,
            checker,
        })
    }

    pub fn forward(&self, input: &Tensor) -> Result<Tensor> {
        Ok(py_check!(self.checker, "1", self.linear.forward(input)?))
    }
}

/// nn.Sequential features.1.conv.
#[derive(Debug, Clone)]
pub struct ConvWithoutConv2dNormActivation1 {
    pub first: Conv2dNormActivation,
    pub conv: Conv2d,
    pub norm: BatchNorm,
    pub checker: Option<PyChecker>,
}

impl ConvWithoutConv2dNormActivation1 {
    pub fn load(vb: VarBuilder, checker: Option<PyChecker>) -> Result<Self> {
        Ok(Self {
            first: Conv2dNormActivation::load(vb.pp("0"), 32, 32, 3, 1, 1, 32, checker.pp("0"))?,
            conv: conv2d_no_bias(32, 16, 1, Conv2dConfig::default(), vb.pp("1"))?,
            norm: batch_norm(16, 1e-5, vb.pp("2"))?,
            checker,
        })
    }

    pub fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let x = py_check!(self.checker, "0", self.first.forward(input)?);
        let conv_output = py_check!(self.checker, "1", self.conv.forward(&x)?);
        let norm_output = py_check!(self.checker, "2", self.norm.forward_t(&conv_output, false)?);
        Ok(norm_output)
    }
}

/// nn.Sequential features.2.conv (16 instances).
#[derive(Debug, Clone)]
pub struct Conv {
    pub first: Conv2dNormActivation,
    pub conv2d_norm_activation_1: Conv2dNormActivation,
    pub conv: Conv2d,
    pub norm: BatchNorm,
    pub checker: Option<PyChecker>,
}

impl Conv {
    pub fn load(
        vb: VarBuilder,
        in_channels: usize,
        channels: usize,
        stride: usize,
        out_channels: usize,
        checker: Option<PyChecker>,
    ) -> Result<Self> {
        Ok(Self {
            first: Conv2dNormActivation::load(
                vb.pp("0"),
                in_channels,
                channels,
                1,
                1,
                0,
                1,
                checker.pp("0"),
            )?,
            conv2d_norm_activation_1: Conv2dNormActivation::load(
                vb.pp("1"),
                channels,
                channels,
                3,
                stride,
                1,
                channels,
                checker.pp("1"),
            )?,
            conv: conv2d_no_bias(
                channels,
                out_channels,
                1,
                Conv2dConfig::default(),
                vb.pp("2"),
            )?,
            norm: batch_norm(out_channels, 1e-5, vb.pp("3"))?,
            checker,
        })
    }

    pub fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let x = py_check!(self.checker, "0", self.first.forward(input)?);
        let conv2d_norm_activation_1_output = self.conv2d_norm_activation_1.forward(&x)?;
        py_check!(self.checker, "1", &conv2d_norm_activation_1_output);
        let conv_output = self.conv.forward(&conv2d_norm_activation_1_output)?;
        py_check!(self.checker, "2", &conv_output);
        let norm_output = py_check!(self.checker, "3", self.norm.forward_t(&conv_output, false)?);
        Ok(norm_output)
    }
}

/// InvertedResidual, torchvision/models/mobilenetv2.py:19.
#[derive(Debug, Clone)]
pub struct FirstInvertedResidual {
    pub conv: ConvWithoutConv2dNormActivation1,
    pub checker: Option<PyChecker>,
}

impl FirstInvertedResidual {
    pub fn load(vb: VarBuilder, checker: Option<PyChecker>) -> Result<Self> {
        Ok(Self {
            conv: ConvWithoutConv2dNormActivation1::load(vb.pp("conv"), checker.pp("conv"))?,
            checker,
        })
    }

    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        Ok(py_check!(self.checker, "conv", self.conv.forward(x)?))
    }
}

/// InvertedResidual, torchvision/models/mobilenetv2.py:19 (6 instances).
#[derive(Debug, Clone)]
pub struct InvertedResidualWithoutResConnect {
    pub conv: Conv,
    pub checker: Option<PyChecker>,
}

impl InvertedResidualWithoutResConnect {
    pub fn load(
        vb: VarBuilder,
        in_channels: usize,
        channels: usize,
        stride: usize,
        out_channels: usize,
        checker: Option<PyChecker>,
    ) -> Result<Self> {
        Ok(Self {
            conv: Conv::load(
                vb.pp("conv"),
                in_channels,
                channels,
                stride,
                out_channels,
                checker.pp("conv"),
            )?,
            checker,
        })
    }

    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        Ok(py_check!(self.checker, "conv", self.conv.forward(x)?))
    }
}

/// InvertedResidual, torchvision/models/mobilenetv2.py:19 (10 instances).
#[derive(Debug, Clone)]
pub struct InvertedResidual {
    pub conv: Conv,
    pub checker: Option<PyChecker>,
}

impl InvertedResidual {
    pub fn load(
        vb: VarBuilder,
        channels: usize,
        conv_channels: usize,
        checker: Option<PyChecker>,
    ) -> Result<Self> {
        Ok(Self {
            conv: Conv::load(
                vb.pp("conv"),
                channels,
                conv_channels,
                1,
                channels,
                checker.pp("conv"),
            )?,
            checker,
        })
    }

    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let conv_output = py_check!(self.checker, "conv", self.conv.forward(x)?);
        x + &conv_output
    }
}

/// nn.Sequential features.
#[derive(Debug, Clone)]
pub struct Features {
    pub first: Conv2dNormActivation,
    pub inverted_residual_1: FirstInvertedResidual,
    pub inverted_residual_2: InvertedResidualWithoutResConnect,
    pub inverted_residual_3: InvertedResidual,
    pub inverted_residual_4: InvertedResidualWithoutResConnect,
    pub inverted_residual_5: InvertedResidual,
    pub inverted_residual_6: InvertedResidual,
    pub inverted_residual_7: InvertedResidualWithoutResConnect,
    pub residuals: Vec<InvertedResidual>,
    pub inverted_residual_11: InvertedResidualWithoutResConnect,
    pub inverted_residual_12: InvertedResidual,
    pub inverted_residual_13: InvertedResidual,
    pub inverted_residual_14: InvertedResidualWithoutResConnect,
    pub layers: Vec<InvertedResidual>,
    pub inverted_residual_17: InvertedResidualWithoutResConnect,
    pub conv2d_norm_activation_18: Conv2dNormActivation,
    pub checker: Option<PyChecker>,
}

impl Features {
    pub fn load(vb: VarBuilder, checker: Option<PyChecker>) -> Result<Self> {
        Ok(Self {
            first: Conv2dNormActivation::load(vb.pp("0"), 3, 32, 3, 2, 1, 1, checker.pp("0"))?,
            inverted_residual_1: FirstInvertedResidual::load(vb.pp("1"), checker.pp("1"))?,
            inverted_residual_2: InvertedResidualWithoutResConnect::load(
                vb.pp("2"),
                16,
                96,
                2,
                24,
                checker.pp("2"),
            )?,
            inverted_residual_3: InvertedResidual::load(vb.pp("3"), 24, 144, checker.pp("3"))?,
            inverted_residual_4: InvertedResidualWithoutResConnect::load(
                vb.pp("4"),
                24,
                144,
                2,
                32,
                checker.pp("4"),
            )?,
            inverted_residual_5: InvertedResidual::load(vb.pp("5"), 32, 192, checker.pp("5"))?,
            inverted_residual_6: InvertedResidual::load(vb.pp("6"), 32, 192, checker.pp("6"))?,
            inverted_residual_7: InvertedResidualWithoutResConnect::load(
                vb.pp("7"),
                32,
                192,
                2,
                64,
                checker.pp("7"),
            )?,
            residuals: (0..3)
                .map(|i| InvertedResidual::load(vb.pp(i + 8), 64, 384, checker.pp(i + 8)))
                .collect::<Result<_>>()?,
            inverted_residual_11: InvertedResidualWithoutResConnect::load(
                vb.pp("11"),
                64,
                384,
                1,
                96,
                checker.pp("11"),
            )?,
            inverted_residual_12: InvertedResidual::load(vb.pp("12"), 96, 576, checker.pp("12"))?,
            inverted_residual_13: InvertedResidual::load(vb.pp("13"), 96, 576, checker.pp("13"))?,
            inverted_residual_14: InvertedResidualWithoutResConnect::load(
                vb.pp("14"),
                96,
                576,
                2,
                160,
                checker.pp("14"),
            )?,
            layers: (0..2)
                .map(|i| InvertedResidual::load(vb.pp(i + 15), 160, 960, checker.pp(i + 15)))
                .collect::<Result<_>>()?,
            inverted_residual_17: InvertedResidualWithoutResConnect::load(
                vb.pp("17"),
                160,
                960,
                1,
                320,
                checker.pp("17"),
            )?,
            conv2d_norm_activation_18: Conv2dNormActivation::load(
                vb.pp("18"),
                320,
                1280,
                1,
                1,
                0,
                1,
                checker.pp("18"),
            )?,
            checker,
        })
    }

    pub fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let x = py_check!(self.checker, "0", self.first.forward(input)?);
        let inverted_residual_1_output =
            py_check!(self.checker, "1", self.inverted_residual_1.forward(&x)?);
        let inverted_residual_2_output = self
            .inverted_residual_2
            .forward(&inverted_residual_1_output)?;
        py_check!(self.checker, "2", &inverted_residual_2_output);
        let inverted_residual_3_output = self
            .inverted_residual_3
            .forward(&inverted_residual_2_output)?;
        py_check!(self.checker, "3", &inverted_residual_3_output);
        let inverted_residual_4_output = self
            .inverted_residual_4
            .forward(&inverted_residual_3_output)?;
        py_check!(self.checker, "4", &inverted_residual_4_output);
        let inverted_residual_5_output = self
            .inverted_residual_5
            .forward(&inverted_residual_4_output)?;
        py_check!(self.checker, "5", &inverted_residual_5_output);
        let inverted_residual_6_output = self
            .inverted_residual_6
            .forward(&inverted_residual_5_output)?;
        py_check!(self.checker, "6", &inverted_residual_6_output);
        let mut inverted_residual_7_output = self
            .inverted_residual_7
            .forward(&inverted_residual_6_output)?;
        py_check!(self.checker, "7", &inverted_residual_7_output);
        for (i, residual) in self.residuals.iter().enumerate() {
            inverted_residual_7_output = residual.forward(&inverted_residual_7_output)?;
            py_check!(self.checker, i + 8, &inverted_residual_7_output);
        }
        let inverted_residual_11_output = self
            .inverted_residual_11
            .forward(&inverted_residual_7_output)?;
        py_check!(self.checker, "11", &inverted_residual_11_output);
        let inverted_residual_12_output = self
            .inverted_residual_12
            .forward(&inverted_residual_11_output)?;
        py_check!(self.checker, "12", &inverted_residual_12_output);
        let inverted_residual_13_output = self
            .inverted_residual_13
            .forward(&inverted_residual_12_output)?;
        py_check!(self.checker, "13", &inverted_residual_13_output);
        let mut inverted_residual_14_output = self
            .inverted_residual_14
            .forward(&inverted_residual_13_output)?;
        py_check!(self.checker, "14", &inverted_residual_14_output);
        for (i, layer) in self.layers.iter().enumerate() {
            inverted_residual_14_output = layer.forward(&inverted_residual_14_output)?;
            py_check!(self.checker, i + 15, &inverted_residual_14_output);
        }
        let inverted_residual_17_output = self
            .inverted_residual_17
            .forward(&inverted_residual_14_output)?;
        py_check!(self.checker, "17", &inverted_residual_17_output);
        let conv2d_norm_activation_18_output = self
            .conv2d_norm_activation_18
            .forward(&inverted_residual_17_output)?;
        py_check!(self.checker, "18", &conv2d_norm_activation_18_output);
        Ok(conv2d_norm_activation_18_output)
    }
}

/// MobileNetV2, torchvision/models/mobilenetv2.py:67.
#[derive(Debug, Clone)]
pub struct MobileNetV2 {
    pub features: Features,
    pub classifier: Classifier,
    pub checker: Option<PyChecker>,
}

impl MobileNetV2 {
    pub fn load(vb: VarBuilder, checker: Option<PyChecker>) -> Result<Self> {
        Ok(Self {
            features: Features::load(vb.pp("features"), checker.pp("features"))?,
            classifier: Classifier::load(vb.pp("classifier"), checker.pp("classifier"))?,
            checker,
        })
    }

    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let x = py_check!(self.checker, "features", self.features.forward(x)?);
        let x = self
            .classifier
            .forward(&ops::adaptive_avg_pool(&x, &[1, 1])?.flatten_from(1)?)?;
        py_check!(self.checker, "classifier", &x);
        Ok(x)
    }
}
