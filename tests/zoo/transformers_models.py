"""Architectures of transformers with tiny configurations: decoders, encoders, both, vision, audio, experts, state spaces."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from .entry import Entry, Inputs, Sizes, floats

VOCABULARY = 97
TINY = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
}
GROUPED = {**TINY, "num_key_value_heads": 2}
HEAD_8 = {**GROUPED, "head_dim": 8}
EXPERTS = {"num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
SEQUENCE = {"batch": 2, "seq": 9}
PAIR = {"batch": 2, "seq": 9, "target": 5}


# ---- inputs ---------------------------------------------------------------------------------------------------


def ids(s: Sizes, g: torch.Generator, length: str = "seq") -> torch.Tensor:
    return torch.randint(3, VOCABULARY, (s["batch"], s[length]), generator=g)


def tokens(s: Sizes, g: torch.Generator) -> dict:
    return {"input_ids": ids(s, g)}


def masked(s: Sizes, g: torch.Generator) -> dict:
    """Tokens with the end of the last row padded."""
    attention = torch.ones(s["batch"], s["seq"], dtype=torch.int64)
    attention[-1, s["seq"] - s["seq"] // 3 :] = 0
    return {"input_ids": ids(s, g), "attention_mask": attention}


def pairs(s: Sizes, g: torch.Generator) -> dict:
    return {"input_ids": ids(s, g), "decoder_input_ids": ids(s, g, "target")}


def masked_pairs(s: Sizes, g: torch.Generator) -> dict:
    """For models that cannot do without masks once they are traced."""
    return {
        **masked(s, g),
        **pairs(s, g),
        "decoder_attention_mask": torch.ones(s["batch"], s["target"], dtype=torch.int64),
    }


def pixels(size: int, channels: int = 3) -> Inputs:
    return floats(pixel_values=("batch", channels, size, size))


def with_pixels(size: int, text: Inputs = masked) -> Inputs:
    return lambda s, g: {**text(s, g), **pixels(size)(s, g)}


# ---- making models --------------------------------------------------------------------------------------------


def built(model: str, config: str, **fields) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        import transformers

        return getattr(transformers, model)(getattr(transformers, config)(**fields))

    return make


def entry(name: str, kind: str, model: str, fields: dict, inputs: Inputs, sizes: Sizes, **more) -> Entry:
    config = more.pop("config", None) or _config_of(model)
    return Entry("transformers", name, kind, built(model, config, **fields), inputs, sizes, **more)


_HEADS = (
    "ForCausalLM", "LMHeadModel", "ForConditionalGeneration", "ForMaskedLM", "ForImageClassification", "ForCTC",
    "ForSequenceClassification", "ForSemanticSegmentation", "ForAudioClassification", "ForPreTraining",
    "ForObjectDetection", "ForDepthEstimation", "ForVideoClassification", "ForPrediction", "Model",
)  # fmt: skip


def _config_of(model: str) -> str:
    head = next(head for head in _HEADS if model.endswith(head))
    return model.removesuffix(head) + "Config"


def decoder(
    name: str, model: str, fields: dict, kind: str = "decoder", inputs: Inputs = masked, **more
) -> Entry:
    return entry(name, kind, model, {**fields, **SPECIAL}, inputs, SEQUENCE, **more)


def encoder(name: str, model: str, fields: dict = TINY, inputs: Inputs = masked, **more) -> Entry:
    return entry(name, "encoder", model, {**fields, **SPECIAL}, inputs, SEQUENCE, **more)


def seq2seq(name: str, model: str, fields: dict, kind: str = "encoder-decoder", **more) -> Entry:
    inputs = more.pop("inputs", pairs)
    return entry(name, kind, model, {**fields, **SPECIAL, "decoder_start_token_id": 1}, inputs, PAIR, **more)


def vision(name: str, model: str, fields: dict, size: int = 32, **more) -> Entry:
    inputs = more.pop("inputs", None) or pixels(size)
    return entry(
        name, more.pop("kind", "vision"), model, fields, inputs, more.pop("sizes", {"batch": 2}), **more
    )


def audio(name: str, model: str, fields: dict, inputs: Inputs, sizes: Sizes | None = None, **more) -> Entry:
    return entry(name, "audio", model, fields, inputs, sizes or {"batch": 2}, **more)


# ---- decoders -------------------------------------------------------------------------------------------------

DECODERS = [
    decoder("gpt2", "GPT2LMHeadModel", {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "vocab_size": 97}),
    decoder("gpt_neo", "GPTNeoForCausalLM", {**TINY, "num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]], "window_size": 4}),
    decoder("gpt_neox", "GPTNeoXForCausalLM", TINY),
    decoder("gptj", "GPTJForCausalLM", {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "rotary_dim": 4, "vocab_size": 97}),
    decoder("codegen", "CodeGenForCausalLM", {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "rotary_dim": 4, "vocab_size": 97}),
    decoder("gpt_bigcode", "GPTBigCodeForCausalLM", {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "vocab_size": 97}),
    decoder("opt", "OPTForCausalLM", {**TINY, "ffn_dim": 48, "word_embed_proj_dim": 32}),
    decoder("bloom", "BloomForCausalLM", {"hidden_size": 32, "n_layer": 2, "n_head": 4, "vocab_size": 97}),
    decoder("mpt", "MptForCausalLM", {"d_model": 32, "n_layers": 2, "n_heads": 4, "max_seq_len": 64, "vocab_size": 97}),
    decoder("falcon", "FalconForCausalLM", {**TINY, "new_decoder_architecture": True, "num_kv_heads": 2}),
    decoder("llama", "LlamaForCausalLM", GROUPED),
    decoder("mistral", "MistralForCausalLM", {**GROUPED, "sliding_window": 4}),
    decoder("qwen3", "Qwen3ForCausalLM", HEAD_8),
    decoder("gemma", "GemmaForCausalLM", HEAD_8),
    decoder("gemma2", "Gemma2ForCausalLM", {**HEAD_8, "sliding_window": 4}),
    decoder("gemma3_text", "Gemma3ForCausalLM", {**HEAD_8, "sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"]}, config="Gemma3TextConfig"),
    decoder("phi", "PhiForCausalLM", TINY),
    decoder("stablelm", "StableLmForCausalLM", GROUPED),
    decoder("olmo2", "Olmo2ForCausalLM", GROUPED),
    decoder("cohere", "CohereForCausalLM", GROUPED),
    decoder("cohere2", "Cohere2ForCausalLM", {**GROUPED, "sliding_window": 4}),
    decoder("glm4", "Glm4ForCausalLM", HEAD_8),
    decoder("biogpt", "BioGptForCausalLM", TINY),
    decoder("xglm", "XGLMForCausalLM", {"d_model": 32, "ffn_dim": 48, "num_layers": 2, "attention_heads": 4, "vocab_size": 97, "max_position_embeddings": 64}),
    decoder("ctrl", "CTRLLMHeadModel", {"n_embd": 32, "dff": 48, "n_layer": 2, "n_head": 4, "n_positions": 64, "vocab_size": 97}),
    decoder("diffllama", "DiffLlamaForCausalLM", GROUPED),
    decoder("apertus", "ApertusForCausalLM", GROUPED),
]  # fmt: skip

EXPERTS_MODELS = [
    decoder("mixtral", "MixtralForCausalLM", {**GROUPED, **EXPERTS}, "experts"),
    decoder("qwen2_moe", "Qwen2MoeForCausalLM", {**GROUPED, **EXPERTS, "shared_expert_intermediate_size": 24}, "experts"),
    decoder("qwen3_moe", "Qwen3MoeForCausalLM", {**HEAD_8, **EXPERTS}, "experts"),
    decoder("granitemoe", "GraniteMoeForCausalLM", {**GROUPED, **EXPERTS}, "experts"),
    decoder("phimoe", "PhimoeForCausalLM", {**GROUPED, **EXPERTS}, "experts"),
    decoder("gpt_oss", "GptOssForCausalLM", {**HEAD_8, **EXPERTS, "sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"]}, "experts"),
    decoder("deepseek_v2", "DeepseekV2ForCausalLM", {**TINY, "num_key_value_heads": 4, "kv_lora_rank": 8, "q_lora_rank": 12, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8, "n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1}, "experts"),
    decoder("deepseek_v3", "DeepseekV3ForCausalLM", {**TINY, "num_key_value_heads": 4, "kv_lora_rank": 8, "q_lora_rank": 12, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8, "n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "first_k_dense_replace": 1, "n_group": 2, "topk_group": 1}, "experts"),
    decoder("dbrx", "DbrxForCausalLM", {"d_model": 32, "n_heads": 4, "n_layers": 2, "max_seq_len": 64, "vocab_size": 97, "attn_config": {"kv_n_heads": 2, "rope_theta": 10000.0, "clip_qkv": 8}, "ffn_config": {"ffn_hidden_size": 24, "moe_num_experts": 4, "moe_top_k": 2, "hidden_size": 32}}, "experts"),
    decoder("jetmoe", "JetMoeForCausalLM", {**TINY, "num_key_value_heads": 2, "kv_channels": 8, "num_local_experts": 4, "num_experts_per_tok": 2}, "experts"),
    seq2seq("switch_transformers", "SwitchTransformersForConditionalGeneration", {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "num_experts": 4, "num_sparse_encoder_layers": 1, "num_sparse_decoder_layers": 1, "vocab_size": 97}, "experts", inputs=masked_pairs),
    seq2seq("nllb_moe", "NllbMoeForConditionalGeneration", {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "num_experts": 4, "encoder_sparse_step": 2, "decoder_sparse_step": 2, "expert_capacity": 64, "max_position_embeddings": 64, "vocab_size": 97}, "experts"),
]  # fmt: skip

STATE_SPACES = [
    decoder("mamba", "MambaForCausalLM", {"hidden_size": 32, "num_hidden_layers": 2, "state_size": 4, "vocab_size": 97}, "state space", tokens),
    decoder("mamba2", "Mamba2ForCausalLM", {"hidden_size": 32, "num_hidden_layers": 2, "state_size": 8, "num_heads": 8, "head_dim": 8, "n_groups": 2, "chunk_size": 8, "vocab_size": 97}, "state space", tokens),
    decoder("jamba", "JambaForCausalLM", {**GROUPED, **EXPERTS, "mamba_d_state": 4, "attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2, "expert_layer_offset": 1, "use_mamba_kernels": False}, "state space", tokens),
    decoder("bamba", "BambaForCausalLM", {**GROUPED, "mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_state": 8, "mamba_n_groups": 1, "mamba_chunk_size": 8, "attn_layer_indices": [1]}, "state space", tokens),
    decoder("recurrent_gemma", "RecurrentGemmaForCausalLM", {**GROUPED, "lru_width": 32, "attention_window_size": 8, "block_types": ["recurrent", "attention"]}, "state space", tokens),
    decoder("rwkv", "RwkvForCausalLM", {"hidden_size": 32, "attention_hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 97, "context_length": 64}, "state space", tokens),
    decoder("lfm2", "Lfm2ForCausalLM", {**GROUPED, "layer_types": ["conv", "full_attention"], "block_multiple_of": 16}, "state space", tokens),
    decoder("zamba2", "Zamba2ForCausalLM", {**TINY, "num_key_value_heads": 4, "mamba_d_state": 8, "mamba_ngroups": 1, "n_mamba_heads": 8, "mamba_headdim": 8, "chunk_size": 8, "layers_block_type": ["mamba", "hybrid"], "num_mem_blocks": 1, "use_mem_rope": True}, "state space", tokens),
    decoder("falcon_h1", "FalconH1ForCausalLM", {**GROUPED, "mamba_d_ssm": 32, "mamba_n_heads": 4, "mamba_d_head": 8, "mamba_d_state": 8, "mamba_n_groups": 1, "mamba_chunk_size": 8}, "state space", tokens),
]  # fmt: skip

# ---- encoders -------------------------------------------------------------------------------------------------

ENCODERS = [
    encoder("bert", "BertModel"),
    encoder("roberta", "RobertaForMaskedLM"),
    encoder("distilbert", "DistilBertForMaskedLM", {"dim": 32, "hidden_dim": 48, "n_layers": 2, "n_heads": 4, "vocab_size": 97, "max_position_embeddings": 64}),
    encoder("albert", "AlbertForMaskedLM", {**TINY, "embedding_size": 16}),
    encoder("electra", "ElectraForPreTraining", {**TINY, "embedding_size": 16}),
    encoder("deberta", "DebertaModel", {**TINY, "relative_attention": True, "pos_att_type": ["c2p", "p2c"]}),
    encoder("deberta_v2", "DebertaV2Model", {**TINY, "relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_buckets": 8, "share_att_key": True}),
    encoder("mpnet", "MPNetModel"),
    encoder("mobilebert", "MobileBertModel", {**TINY, "embedding_size": 16, "intra_bottleneck_size": 16, "true_hidden_size": 16}),
    encoder("squeezebert", "SqueezeBertModel", {**TINY, "embedding_size": 32}),
    encoder("xlm", "XLMWithLMHeadModel", {"emb_dim": 32, "n_layers": 2, "n_heads": 4, "vocab_size": 97, "max_position_embeddings": 64, "n_langs": 1}, config="XLMConfig"),
    encoder("xlnet", "XLNetLMHeadModel", {"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 48, "vocab_size": 97}),
    encoder("longformer", "LongformerModel", {**TINY, "attention_window": 4}),
    encoder("big_bird", "BigBirdModel", {**TINY, "attention_type": "original_full"}),
    encoder("fnet", "FNetModel", inputs=tokens),
    encoder("nystromformer", "NystromformerModel", {**TINY, "num_landmarks": 9, "segment_means_seq_len": 9}, further={"seq": (9, 9, 9)}),
    encoder("convbert", "ConvBertModel", {**TINY, "embedding_size": 16}),
    encoder("funnel", "FunnelModel", {"d_model": 32, "n_head": 4, "d_head": 8, "d_inner": 48, "block_sizes": [1, 1], "vocab_size": 97}),
    encoder("layoutlm", "LayoutLMModel"),
    encoder("modernbert", "ModernBertModel", {**TINY, "local_attention": 8}),
    encoder("roformer", "RoFormerModel", {**TINY, "embedding_size": 32}),
    encoder("esm", "EsmModel", {**TINY, "position_embedding_type": "rotary", "mask_token_id": 3}),
    encoder("canine", "CanineModel", {**TINY, "local_transformer_stride": 4, "num_hash_buckets": 64, "downsampling_rate": 4, "upsampling_kernel_size": 4}),
    encoder("ibert", "IBertModel"),
]  # fmt: skip

# ---- encoder and decoder --------------------------------------------------------------------------------------

T5_FIELDS = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "vocab_size": 97}
BART_FIELDS = {
    "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "max_position_embeddings": 64, "vocab_size": 97,
    "forced_eos_token_id": 2,
}  # fmt: skip

SEQ2SEQ = [
    seq2seq("t5", "T5ForConditionalGeneration", T5_FIELDS),
    seq2seq("mt5", "MT5ForConditionalGeneration", {**T5_FIELDS, "feed_forward_proj": "gated-gelu"}),
    seq2seq("longt5", "LongT5ForConditionalGeneration", {**T5_FIELDS, "local_radius": 3, "encoder_attention_type": "local"}, inputs=masked_pairs),
    seq2seq("bart", "BartForConditionalGeneration", BART_FIELDS),
    seq2seq("mbart", "MBartForConditionalGeneration", BART_FIELDS),
    seq2seq("pegasus", "PegasusForConditionalGeneration", BART_FIELDS),
    seq2seq("marian", "MarianMTModel", BART_FIELDS, config="MarianConfig"),
    seq2seq("m2m_100", "M2M100ForConditionalGeneration", BART_FIELDS),
    seq2seq("prophetnet", "ProphetNetForConditionalGeneration", {"hidden_size": 32, "num_encoder_layers": 2, "num_decoder_layers": 2, "num_encoder_attention_heads": 4, "num_decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "max_position_embeddings": 64, "vocab_size": 97, "ngram": 2, "num_buckets": 8, "relative_max_distance": 16}),
    seq2seq("led", "LEDForConditionalGeneration", {**BART_FIELDS, "attention_window": 4, "max_encoder_position_embeddings": 64, "max_decoder_position_embeddings": 64}),
    seq2seq("pegasus_x", "PegasusXForConditionalGeneration", {**BART_FIELDS, "block_size": 4, "num_global_tokens": 2}),
]  # fmt: skip

# ---- vision ---------------------------------------------------------------------------------------------------

VIT = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 32,
    "patch_size": 8,
}
SWIN = {
    "image_size": 32,
    "patch_size": 4,
    "embed_dim": 16,
    "depths": [2, 2],
    "num_heads": [2, 4],
    "window_size": 4,
}
STAGES = {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 2, 1]}
TEXT_TOWER = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
PYRAMID = {
    "hidden_sizes": [8, 16, 24, 32],
    "depths": [1, 1, 1, 1],
    "num_attention_heads": [1, 2, 3, 4],
    "decoder_hidden_size": 16,
}

VISION = [
    vision("vit", "ViTForImageClassification", VIT),
    vision("deit", "DeiTForImageClassification", VIT),
    vision("beit", "BeitForImageClassification", {**VIT, "use_relative_position_bias": True}),
    vision("swin", "SwinForImageClassification", SWIN),
    vision("swinv2", "Swinv2ForImageClassification", SWIN),
    vision("swin2sr", "Swin2SRForImageSuperResolution", {**SWIN, "image_size": 16, "patch_size": 1, "upscale": 2}, 16, config="Swin2SRConfig"),
    vision("convnext", "ConvNextForImageClassification", STAGES),
    vision("convnextv2", "ConvNextV2ForImageClassification", STAGES),
    vision("resnet", "ResNetForImageClassification", {**STAGES, "embedding_size": 8}),
    vision("regnet", "RegNetForImageClassification", {**STAGES, "embedding_size": 8, "groups_width": 8}),
    vision("segformer", "SegformerForSemanticSegmentation", PYRAMID, 64),
    vision("mobilevit", "MobileViTForImageClassification", {"image_size": 32, "hidden_sizes": [16, 24, 32], "neck_hidden_sizes": [8, 8, 12, 16, 16, 16, 32], "num_attention_heads": 4}, 64),
    vision("mobilevitv2", "MobileViTV2ForImageClassification", {"image_size": 64, "width_multiplier": 0.25}, 64),
    vision("mobilenet_v1", "MobileNetV1ForImageClassification", {"depth_multiplier": 0.25, "image_size": 32}),
    vision("efficientnet", "EfficientNetForImageClassification", {"image_size": 32, "width_coefficient": 0.25, "depth_coefficient": 0.3, "hidden_dim": 320}),
    vision("dinov2", "Dinov2ForImageClassification", VIT),
    vision("ijepa", "IJepaModel", VIT),
    vision("pvt", "PvtForImageClassification", {"image_size": 32, "hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1], "num_attention_heads": [1, 2, 3, 4]}),
    vision("pvt_v2", "PvtV2ForImageClassification", {"image_size": 32, "hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1], "num_attention_heads": [1, 2, 3, 4]}),
    vision("cvt", "CvtForImageClassification", {"embed_dim": [8, 16, 24], "num_heads": [1, 2, 3], "depth": [1, 2, 3], "cls_token": [False, False, True]}, 32),
    vision("levit", "LevitForImageClassification", {"image_size": 64, "hidden_sizes": [16, 24, 32], "num_attention_heads": [2, 3, 4], "depths": [1, 1, 1], "key_dim": [8, 8, 8]}, 64),
    vision("poolformer", "PoolFormerForImageClassification", {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1]}),
    vision("focalnet", "FocalNetForImageClassification", {"image_size": 32, "embed_dim": 16, "depths": [1, 1], "focal_levels": [2, 2], "focal_windows": [3, 3], "hidden_sizes": [16, 32]}),
    vision("glpn", "GLPNForDepthEstimation", PYRAMID, 64),
    vision("yolos", "YolosForObjectDetection", {**VIT, "image_size": [32, 32], "num_detection_tokens": 5}),
    vision("hiera", "HieraForImageClassification", {"image_size": [64, 64], "embed_dim": 8, "num_heads": [1, 2, 4, 8], "depths": [1, 1, 1, 1]}, 64),
    vision("videomae", "VideoMAEForVideoClassification", {**VIT, "num_frames": 4}, inputs=floats(pixel_values=("batch", 4, 3, 32, 32))),
    vision("vivit", "VivitForVideoClassification", {**VIT, "num_frames": 4, "tubelet_size": [2, 8, 8]}, inputs=floats(pixel_values=("batch", 4, 3, 32, 32))),
    vision("timesformer", "TimesformerForVideoClassification", {**VIT, "num_frames": 4}, inputs=floats(pixel_values=("batch", 4, 3, 32, 32))),
    vision("swiftformer", "SwiftFormerForImageClassification", {"image_size": 64, "depths": [1, 1, 1, 1], "embed_dims": [8, 16, 24, 32]}, 64),
    vision("clip_vision", "CLIPVisionModel", VIT),
    vision("clip", "CLIPModel", {"text_config": TEXT_TOWER, "vision_config": VIT, "projection_dim": 16}, inputs=with_pixels(32), sizes=SEQUENCE, kind="vision and text"),
    vision("siglip", "SiglipModel", {"text_config": TEXT_TOWER, "vision_config": VIT}, inputs=with_pixels(32), sizes=SEQUENCE, kind="vision and text"),
    vision("vilt", "ViltModel", {**VIT, **SPECIAL, "vocab_size": 97, "max_position_embeddings": 64}, inputs=with_pixels(32), sizes=SEQUENCE, kind="vision and text"),
]  # fmt: skip

# ---- audio ----------------------------------------------------------------------------------------------------

CONVOLUTIONS = {
    "conv_dim": [16, 16, 16],
    "conv_stride": [5, 4, 2],
    "conv_kernel": [10, 5, 2],
    "num_conv_pos_embeddings": 8,
    "num_conv_pos_embedding_groups": 4,
}
SPEECH = {**TINY, **CONVOLUTIONS, "vocab_size": 32}
WAVE = floats(input_values=("batch", 1200))
WHISPER = {
    **BART_FIELDS, **SPECIAL, "num_mel_bins": 8, "max_source_positions": 16, "max_target_positions": 32,
    "decoder_start_token_id": 1, "suppress_tokens": None, "begin_suppress_tokens": None,
}  # fmt: skip


def whisper_inputs(s: Sizes, g: torch.Generator) -> dict:
    features = torch.randn(s["batch"], 8, 32, generator=g)
    return {"input_features": features, "decoder_input_ids": ids(s, g, "target")}


def speech_to_text_inputs(s: Sizes, g: torch.Generator) -> dict:
    features = torch.randn(s["batch"], 40, 8, generator=g)
    return {"input_features": features, "decoder_input_ids": ids(s, g, "target")}


def moonshine_inputs(s: Sizes, g: torch.Generator) -> dict:
    wave = torch.randn(s["batch"], 2400, generator=g)
    return {"input_values": wave, "decoder_input_ids": ids(s, g, "target")}


def speecht5_inputs(s: Sizes, g: torch.Generator) -> dict:
    wave = torch.randn(s["batch"], 1200, generator=g)
    return {"input_values": wave, "decoder_input_ids": ids(s, g, "target")}


TARGET = {"batch": 2, "target": 5}

AUDIO = [
    audio("wav2vec2", "Wav2Vec2ForCTC", SPEECH, WAVE),
    audio("wav2vec2_conformer", "Wav2Vec2ConformerModel", {**SPEECH, "position_embeddings_type": "relative"}, WAVE),
    audio("wav2vec2_bert", "Wav2Vec2BertModel", {**TINY, "feature_projection_input_dim": 16, "conv_depthwise_kernel_size": 7}, floats(input_features=("batch", 20, 16))),
    audio("hubert", "HubertForCTC", SPEECH, WAVE),
    audio("wavlm", "WavLMModel", {**SPEECH, "num_buckets": 16, "max_bucket_distance": 32}, WAVE),
    audio("sew", "SEWModel", {**SPEECH, "squeeze_factor": 2}, WAVE),
    audio("sew_d", "SEWDModel", {**SPEECH, "squeeze_factor": 2, "position_buckets": 8}, WAVE),
    audio("data2vec_audio", "Data2VecAudioModel", {**SPEECH, "num_conv_pos_embeddings": 2, "conv_pos_kernel_size": 7}, WAVE),
    audio("whisper", "WhisperForConditionalGeneration", WHISPER, whisper_inputs, TARGET),
    audio("speech_to_text", "Speech2TextForConditionalGeneration", {**BART_FIELDS, **SPECIAL, "input_feat_per_channel": 8, "max_source_positions": 64, "max_target_positions": 32, "conv_channels": 16, "decoder_start_token_id": 1}, speech_to_text_inputs, TARGET, config="Speech2TextConfig"),
    audio("speecht5", "SpeechT5ForSpeechToText", {**CONVOLUTIONS, **SPECIAL, "hidden_size": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "vocab_size": 97, "decoder_start_token_id": 1}, speecht5_inputs, TARGET, config="SpeechT5Config"),
    audio("moonshine", "MoonshineForConditionalGeneration", {**SPECIAL, "vocab_size": 97, "hidden_size": 32, "intermediate_size": 48, "encoder_num_hidden_layers": 2, "decoder_num_hidden_layers": 2, "encoder_num_attention_heads": 4, "decoder_num_attention_heads": 4, "max_position_embeddings": 64, "decoder_start_token_id": 1}, moonshine_inputs, TARGET),
    audio("audio_spectrogram_transformer", "ASTForAudioClassification", {**VIT, "max_length": 32, "num_mel_bins": 16, "frequency_stride": 8, "time_stride": 8}, floats(input_values=("batch", 32, 16))),
    audio("clap_audio", "ClapAudioModel", {"hidden_size": 32, "patch_embeds_hidden_size": 16, "depths": [1, 1], "num_attention_heads": [2, 4], "num_mel_bins": 16, "spec_size": 32, "window_size": 4, "patch_size": 4, "patch_stride": [4, 4]}, floats(input_features=("batch", 1, 32, 16))),
    audio("encodec", "EncodecModel", {"hidden_size": 16, "num_filters": 4, "upsampling_ratios": [4, 2], "num_lstm_layers": 1, "codebook_size": 16, "codebook_dim": 16, "target_bandwidths": [24.0]}, floats(input_values=("batch", 1, 320))),
    audio("dac", "DacModel", {"encoder_hidden_size": 8, "downsampling_ratios": [2, 4], "decoder_hidden_size": 32, "n_codebooks": 2, "codebook_size": 16, "codebook_dim": 4, "upsampling_ratios": [4, 2], "hidden_size": 32}, floats(input_values=("batch", 1, 320)), constant=("output.loss",)),
]  # fmt: skip

# ---- series and decisions -------------------------------------------------------------------------------------

SERIES = [
    entry("patchtst", "time series", "PatchTSTForPrediction", {"num_input_channels": 3, "context_length": 32, "patch_length": 8, "patch_stride": 8, "prediction_length": 8, "d_model": 16, "num_attention_heads": 4, "num_hidden_layers": 2, "ffn_dim": 24}, floats(past_values=("batch", 32, 3)), {"batch": 2}, constant=("output.loc", "output.scale")),
    entry("patchtsmixer", "time series", "PatchTSMixerForPrediction", {"num_input_channels": 3, "context_length": 32, "patch_length": 8, "patch_stride": 8, "prediction_length": 8, "d_model": 16, "num_layers": 2}, floats(past_values=("batch", 32, 3)), {"batch": 2}, constant=("output.loc", "output.scale")),
    entry("perceiver", "any", "PerceiverModel", {"num_latents": 6, "d_latents": 16, "d_model": 24, "num_blocks": 1, "num_self_attends_per_block": 2, "num_self_attention_heads": 2, "num_cross_attention_heads": 2}, floats(inputs=("batch", 10, 24)), {"batch": 2}),
]  # fmt: skip


def entries() -> list[Entry]:
    return [*DECODERS, *EXPERTS_MODELS, *STATE_SPACES, *ENCODERS, *SEQ2SEQ, *VISION, *AUDIO, *SERIES]
