//! GPT-2 as candle-transformers' `bigcode` would compute it: the same operators in the same order, over the same cache.
//! `GPTBigCode` itself stops in a reshape when `multi_query` is false (candle-transformers 0.11.1).
use candle_core::{IndexOp, Result, Tensor, D};
use candle_nn::{embedding, layer_norm, linear, linear_no_bias, Embedding, LayerNorm, Linear, Module, VarBuilder};

const WIDTH: usize = 768;
const HEADS: usize = 12;
const LAYERS: usize = 12;
const POSITIONS: usize = 1024;
const TOKENS: usize = 50257;
const EPS: f64 = 1e-5;

struct Attention {
    c_attn: Linear,
    c_proj: Linear,
    /// Keys and values side by side, [batch, heads, tokens, 2 * width of a head].
    cache: Option<Tensor>,
}

impl Attention {
    fn load(vb: VarBuilder) -> Result<Self> {
        let c_attn = linear(WIDTH, 3 * WIDTH, vb.pp("c_attn"))?;
        Ok(Self { c_attn, c_proj: linear(WIDTH, WIDTH, vb.pp("c_proj"))?, cache: None })
    }

    fn forward(&mut self, x: &Tensor, mask: &Tensor) -> Result<Tensor> {
        let (batch, tokens, _) = x.dims3()?;
        let width = WIDTH / HEADS;
        let qkv = self.c_attn.forward(x)?.reshape((batch, tokens, HEADS, 3 * width))?.transpose(1, 2)?;
        let query = qkv.narrow(D::Minus1, 0, width)?.reshape((batch * HEADS, tokens, width))?;
        let mut rows = qkv.narrow(D::Minus1, width, 2 * width)?;
        if let Some(cache) = &self.cache {
            rows = Tensor::cat(&[cache, &rows], D::Minus2)?.contiguous()?;
        }
        self.cache = Some(rows.clone());
        let key = rows.narrow(D::Minus1, 0, width)?.t()?;
        let value = rows.narrow(D::Minus1, width, width)?.contiguous()?;
        let seen = value.dim(D::Minus2)?;
        let key = key.reshape((batch * HEADS, width, seen))?.contiguous()?;
        let scores = (query.matmul(&key)? * (1.0 / (width as f64).sqrt()))?;
        let scores = scores.reshape((batch, HEADS, tokens, seen))?;
        let nothing = Tensor::new(f32::NEG_INFINITY, x.device())?.broadcast_as(scores.shape())?;
        let scores = mask.broadcast_as(scores.shape())?.where_cond(&scores, &nothing)?;
        let y = candle_nn::ops::softmax_last_dim(&scores)?.matmul(&value)?;
        self.c_proj.forward(&y.transpose(1, 2)?.reshape(x.shape())?)
    }
}

struct Block {
    ln_1: LayerNorm,
    attn: Attention,
    ln_2: LayerNorm,
    c_fc: Linear,
    c_proj: Linear,
}

impl Block {
    fn load(vb: VarBuilder) -> Result<Self> {
        Ok(Self {
            ln_1: layer_norm(WIDTH, EPS, vb.pp("ln_1"))?,
            attn: Attention::load(vb.pp("attn"))?,
            ln_2: layer_norm(WIDTH, EPS, vb.pp("ln_2"))?,
            c_fc: linear(WIDTH, 4 * WIDTH, vb.pp("mlp.c_fc"))?,
            c_proj: linear(4 * WIDTH, WIDTH, vb.pp("mlp.c_proj"))?,
        })
    }

    fn forward(&mut self, x: &Tensor, mask: &Tensor) -> Result<Tensor> {
        let x = (self.attn.forward(&self.ln_1.forward(x)?, mask)? + x)?;
        let hidden = self.c_fc.forward(&self.ln_2.forward(&x)?)?.gelu()?;
        self.c_proj.forward(&hidden)? + x
    }
}

pub struct Gpt2 {
    wte: Embedding,
    wpe: Embedding,
    blocks: Vec<Block>,
    ln_f: LayerNorm,
    lm_head: Linear,
    mask: Tensor,
}

impl Gpt2 {
    pub fn load(vb: VarBuilder) -> Result<Self> {
        let vb = vb.pp("transformer");
        let causal = (0..POSITIONS).flat_map(|i| (0..POSITIONS).map(move |j| u8::from(j <= i)));
        Ok(Self {
            wte: embedding(TOKENS, WIDTH, vb.pp("wte"))?,
            wpe: embedding(POSITIONS, WIDTH, vb.pp("wpe"))?,
            blocks: (0..LAYERS).map(|i| Block::load(vb.pp(format!("h.{i}")))).collect::<Result<_>>()?,
            ln_f: layer_norm(WIDTH, EPS, vb.pp("ln_f"))?,
            lm_head: linear_no_bias(WIDTH, TOKENS, vb.pp("wte"))?,
            mask: Tensor::from_vec(causal.collect(), (POSITIONS, POSITIONS), vb.device())?,
        })
    }

    /// The logits of the last of these tokens; `seen` tokens are in the cache.
    pub fn forward(&mut self, ids: &Tensor, seen: usize) -> Result<Tensor> {
        let tokens = ids.dim(1)?;
        let mask = self.mask.i((seen..seen + tokens, ..seen + tokens))?;
        let positions = Tensor::arange(seen as u32, (seen + tokens) as u32, ids.device())?.unsqueeze(0)?;
        let mut x = (self.wte.forward(ids)? + self.wpe.forward(&positions)?)?;
        for block in &mut self.blocks {
            x = block.forward(&x, &mask)?;
        }
        self.lm_head.forward(&self.ln_f.forward(&x)?.narrow(1, tokens - 1, 1)?)
    }
}
