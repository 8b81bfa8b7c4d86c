//! Every operator against values that PyTorch gave: tests/python/test_rust_crate.py writes them to PYCANDLE_GOLDENS.

use std::collections::HashMap;

use candle_core::{DType, Device, Result, Tensor, D};
use pycandle::ops::{self, Attention, Cell, Conv, Pool, Recurrent, RmsNorm, Rotary};

type Inputs = Vec<Tensor>;

fn values(x: &Tensor) -> Result<Vec<f64>> {
    x.to_dtype(DType::F64)?.flatten_all()?.to_vec1()
}

fn is_float(x: &Tensor) -> bool {
    matches!(
        x.dtype(),
        DType::F16 | DType::BF16 | DType::F32 | DType::F64
    )
}

/// Roundoffs of the dtype, of a sum of some terms.
fn tolerance(x: &Tensor) -> f64 {
    match x.dtype() {
        DType::F16 => 2e-3,
        DType::BF16 => 1.6e-2,
        DType::F64 => 1e-13,
        _ => 2e-6,
    }
}

fn check(name: &str, ours: &Tensor, golden: &Tensor) -> Result<()> {
    assert_eq!(ours.dims(), golden.dims(), "the shape of {name}");
    assert_eq!(ours.dtype(), golden.dtype(), "the dtype of {name}");
    let (ours, theirs) = (values(ours)?, values(golden)?);
    let finite = || theirs.iter().filter(|v| v.is_finite());
    let size = (finite().map(|v| v * v).sum::<f64>() / finite().count().max(1) as f64).sqrt();
    for (n, (a, b)) in ours.iter().zip(&theirs).enumerate() {
        let is_same = a == b || (a.is_nan() && b.is_nan());
        let close = is_float(golden) && (a - b).abs() <= tolerance(golden) * (size + b.abs());
        assert!(
            is_same || close,
            "{name}: element {n} is {a}, PyTorch has {b}"
        );
    }
    Ok(())
}

fn arithmetic(name: &str, x: &Inputs) -> Option<Result<Tensor>> {
    Some(match name {
        "add_of_i64_and_f32" | "add_of_f16_and_0d_f32" | "add_of_other_ranks" => {
            ops::add(&x[0], &x[1])
        }
        "add_of_i64_and_float" => ops::add(&x[0], 1.5),
        "sub_from_number" => ops::sub(2, &x[0]),
        "div_of_integers" => ops::div(&x[0], &x[1]),
        "div_by_three" => ops::div(&x[0], 3.0),
        "pow" => ops::pow(&x[0], &x[1]),
        "maximum_with_nan" => ops::maximum(&x[0], &x[1]),
        "minimum_with_nan" => ops::minimum(&x[0], &x[1]),
        "remainder" | "remainder_of_integers" => ops::remainder(&x[0], &x[1]),
        "fmod" => ops::fmod(&x[0], &x[1]),
        "floor_divide" | "floor_divide_of_integers" => ops::floor_divide(&x[0], &x[1]),
        "less_than_broadcast" => ops::lt(&x[0], &x[1]),
        "where_with_number" => ops::where_cond(&x[0], &x[1], 0.0),
        "clamp_keeps_nan" => ops::clamp(&x[0], Some(-0.5), Some(0.5)),
        "clamp_min_of_integers" => ops::clamp(&x[0], Some(1.0), None),
        "round_half_to_even" => ops::round(&x[0]),
        "erf" => ops::erf(&x[0]),
        "log1p" => ops::log1p(&x[0]),
        "rsqrt" => ops::rsqrt(&x[0]),
        "gelu" | "gelu_bf16" => ops::gelu(&x[0], false),
        "gelu_tanh" => ops::gelu(&x[0], true),
        "mish" => ops::mish(&x[0]),
        "hardswish" => ops::hardswish(&x[0]),
        "softplus" => ops::softplus(&x[0], 2.0, 1.0),
        "elu" => ops::elu(&x[0], 0.7, 1.0, 1.0),
        "glu" => ops::glu(&x[0], -1),
        "prelu" => ops::prelu(&x[0], &x[1]),
        _ => return None,
    })
}

fn moved(name: &str, x: &Inputs) -> Option<Result<Tensor>> {
    Some(match name {
        "reflection_pad" => ops::reflection_pad(&x[0], &[0, 0, 2], &[0, 0, 1]),
        "replication_pad" => ops::replication_pad(&x[0], &[0, 0, 2], &[0, 0, 1]),
        "circular_pad" => ops::circular_pad(&x[0], &[0, 0, 2], &[0, 0, 1]),
        "constant_pad" => ops::pad(&x[0], &[0, 1, -1], &[0, 0, 2], 0.5),
        "roll" => ops::roll(&x[0], &[1, -2], &[0, 2]),
        "flip" => ops::reverse(&x[0], &[1, -1]),
        "tril" => ops::tril(&x[0], 1),
        "triu" => ops::triu(&x[0], -1),
        "unfold" | "unfold_of_the_middle" => {
            ops::unfold(&x[0], if name == "unfold" { -1 } else { 1 }, 2, 1)
        }
        "diagonal" => ops::diagonal(&x[0], 1, 0, 2),
        "repeat_interleave" => ops::repeat_interleave(&x[0], 3, 1),
        "slice_scatter" => ops::slice_scatter(&x[0], &x[1], 2, 1, 4, 2),
        "index" => ops::gather_nd(&x[0], &[&x[1], &x[2]], &[0, 1]),
        "index_apart" => ops::gather_nd(&x[0], &[&x[1], &x[2]], &[0, 2]),
        "index_select" => ops::take(&x[0], &x[1], 1),
        "gather" => ops::gather(&x[0], &x[1], 2),
        "scatter_reduce_mean" => ops::scatter(&x[0], &x[1], &x[2], 1, "mean", true),
        "index_put" => ops::scatter_nd(&x[0], &x[1], &[&x[2]], &[0], true),
        "cumsum" | "cumsum_of_integers" => ops::cumsum(&x[0], 1),
        "sort" => ops::sort(&x[0], -1, true).map(|(values, _)| values),
        "argsort" => ops::sort(&x[0], 1, false).map(|(_, places)| places),
        "topk" => ops::topk(&x[0], 2, -1, true).map(|(values, _)| values),
        "one_hot" => ops::one_hot(&x[0], 5),
        _ => return None,
    })
}

fn reduced(name: &str, x: &Inputs) -> Option<Result<Tensor>> {
    Some(match name {
        "amax_with_nan" => ops::max(&x[0], &[0, 2], false),
        "sum_of_bf16" => ops::sum(&x[0], &[-1], true),
        "argmax" => ops::argmax(&x[0], 1),
        "any" => ops::any(&x[0], &[1], false),
        "all" => ops::all(&x[0], &[1], false),
        "var" => ops::var(&x[0], &[1], 1.0, false),
        "vector_norm" => ops::vector_norm(&x[0], &[1], 3.0, true),
        "logsumexp" => ops::logsumexp(&x[0], &[1], false),
        "softmax" => ops::softmax(&x[0], 1),
        "log_softmax_f16" => ops::log_softmax(&x[0], -1),
        "layer_norm" => ops::layer_norm(&x[0], 2, Some(&x[1]), Some(&x[2]), 1e-3),
        "rms_norm" => ops::rms_norm(
            &x[0],
            1,
            RmsNorm {
                weight: Some(&x[1]),
                eps: Some(1e-3),
                ..Default::default()
            },
        ),
        "group_norm" => ops::group_norm(&x[0], 2, Some(&x[1]), Some(&x[2]), 1e-3),
        "batch_norm" => ops::batch_norm(&x[0], &x[1], &x[2], Some(&x[3]), Some(&x[4]), 1e-3),
        "max_pool" => ops::max_pool(
            &x[0],
            &[3, 2],
            Pool {
                stride: &[2, 1],
                padding: &[1, 1],
                dilation: &[1, 2],
                ..Default::default()
            },
        ),
        "max_pool_ceil" => ops::max_pool(
            &x[0],
            &[2, 2],
            Pool {
                stride: &[2, 2],
                ceil_mode: true,
                ..Default::default()
            },
        ),
        "avg_pool" => ops::avg_pool(
            &x[0],
            &[3, 3],
            Pool {
                stride: &[2, 2],
                padding: &[1, 1],
                ceil_mode: true,
                ..Default::default()
            },
        ),
        "avg_pool_without_padding" => ops::avg_pool(
            &x[0],
            &[3, 3],
            Pool {
                stride: &[2, 2],
                padding: &[1, 1],
                without_padding: true,
                ..Default::default()
            },
        ),
        "adaptive_avg_pool" => ops::adaptive_avg_pool(&x[0], &[3, 2]),
        "adaptive_max_pool" => ops::adaptive_max_pool(&x[0], &[3, 2]),
        _ => return None,
    })
}

fn product(name: &str, x: &Inputs) -> Option<Result<Tensor>> {
    let stride = Conv {
        bias: Some(&x[x.len() - 1]),
        stride: &[2, 1],
        padding: &[1, 2],
        dilation: &[1, 2],
        ..Default::default()
    };
    Some(match name {
        "matmul_broadcast" | "matmul_of_rank_5" | "matmul_vector" | "matmul_of_integers" => {
            ops::matmul(&x[0], &x[1])
        }
        "linear" => ops::linear(&x[0], &x[1], Some(&x[2])),
        "tensordot" => ops::dot_general(&x[0], &x[1], (&[], &[]), (&[2, 0], &[0, 1])),
        "conv1d" => ops::conv1d(
            &x[0],
            &x[1],
            Conv {
                bias: Some(&x[2]),
                stride: &[2],
                padding: &[1],
                ..Default::default()
            },
        ),
        "conv2d" => ops::conv2d(&x[0], &x[1], stride),
        "conv2d_same" => ops::conv2d(
            &x[0],
            &x[1],
            Conv {
                same: true,
                groups: 2,
                ..Default::default()
            },
        ),
        "conv2d_unbatched" => ops::conv2d(&x[0], &x[1], Conv::default()),
        "conv3d" => ops::conv3d(
            &x[0],
            &x[1],
            Conv {
                stride: &[2, 1, 1],
                padding: &[1, 1, 0],
                ..Default::default()
            },
        ),
        "conv_transpose1d" => ops::conv_transpose1d(
            &x[0],
            &x[1],
            Conv {
                stride: &[2],
                padding: &[1],
                output_padding: &[1],
                ..Default::default()
            },
        ),
        "conv_transpose2d" => ops::conv_transpose2d(
            &x[0],
            &x[1],
            Conv {
                stride: &[2, 3],
                dilation: &[2, 1],
                groups: 2,
                ..Default::default()
            },
        ),
        "attention" => ops::scaled_dot_product_attention(&x[0], &x[1], &x[2], Attention::default()),
        "attention_causal" => ops::scaled_dot_product_attention(
            &x[0],
            &x[1],
            &x[2],
            Attention {
                is_causal: true,
                scale: Some(0.3),
                ..Default::default()
            },
        ),
        "attention_grouped" => {
            ops::scaled_dot_product_attention(&x[0], &x[1], &x[2], Attention::default())
        }
        "attention_masked" => ops::scaled_dot_product_attention(
            &x[0],
            &x[1],
            &x[2],
            Attention {
                attn_mask: Some(&x[3]),
                ..Default::default()
            },
        ),
        "attention_biased" => ops::scaled_dot_product_attention(
            &x[0],
            &x[1],
            &x[2],
            Attention {
                attn_mask: Some(&x[3]),
                ..Default::default()
            },
        ),
        "rotary" => ops::rotary_embedding(
            &x[0],
            &x[1],
            &x[2],
            Rotary {
                unsqueeze_dim: Some(1),
                ..Default::default()
            },
        ),
        "lstm" | "lstm_projected" | "gru" => {
            let options = Recurrent {
                num_layers: 2,
                has_biases: true,
                bidirectional: true,
                batch_first: true,
            };
            let cell = if name == "gru" { Cell::Gru } else { Cell::Lstm };
            let params: Vec<&Tensor> = x[3..].iter().collect();
            ops::recurrent(cell, &x[0], &x[1], &x[2], &params, options).map(|[y, _, _]| y)
        }
        _ => return None,
    })
}

#[test]
fn every_operator_gives_what_pytorch_gave() -> Result<()> {
    let Ok(folder) = std::env::var("PYCANDLE_GOLDENS") else {
        panic!("PYCANDLE_GOLDENS names the folder of the values; run pytest tests -k rust_crate");
    };
    let mut seen = 0;
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .to_string();
        let tensors: HashMap<String, Tensor> = candle_core::safetensors::load(&path, &Device::Cpu)?;
        let inputs = (0..)
            .map_while(|n| tensors.get(&format!("in{n}")).cloned())
            .collect::<Vec<_>>();
        let found = arithmetic(&name, &inputs).or_else(|| moved(&name, &inputs));
        let found = found
            .or_else(|| reduced(&name, &inputs))
            .or_else(|| product(&name, &inputs));
        let ours = found.unwrap_or_else(|| panic!("no case of the name {name}"))?;
        check(&name, &ours, &tensors["out"])?;
        seen += 1;
    }
    assert!(seen > 80, "only {seen} cases");
    Ok(())
}

#[test]
fn a_wrong_axis_is_an_error() -> Result<()> {
    let x = Tensor::zeros((2, 3), DType::F32, &Device::Cpu)?;
    assert!(ops::softmax(&x, 2).is_err());
    assert!(ops::take(&x, &Tensor::new(&[3i64], &Device::Cpu)?, 1).is_err());
    assert!(ops::add(&x, &Tensor::zeros((2, 2), DType::F32, &Device::Cpu)?).is_err());
    assert_eq!(ops::softmax(&x, -1)?.dim(D::Minus1)?, 3);
    Ok(())
}
