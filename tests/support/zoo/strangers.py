"""Families of transformers for text that the first lists do not have, each with a small random configuration."""

import torch
from torch import nn, randint, randn

from libraries import NO_CACHE, PAIR, masked, only, pair, transformer
from registry import add, padding, together, tokens

V = 600
S = dict(hidden_size=32, num_hidden_layers=3, num_attention_heads=4, intermediate_size=48, vocab_size=V)
KV = dict(num_key_value_heads=2)
IMAGE = ["pixel_values"]


def causal(name, prefix, more=None, base=S, options=NO_CACHE, inputs=masked(V, 12), names=("input_ids", "attention_mask"), kind="ForCausalLM", **how):
    transformer("xf_" + name, prefix + kind, prefix + "Config", inputs, names, options=options, **{**base, **(more or {})}, **how)


# Decoders.
causal("qwen3", "Qwen3", dict(head_dim=8, **KV))
causal("qwen2_moe", "Qwen2Moe", dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24, shared_expert_intermediate_size=24, **KV))
causal("qwen3_moe", "Qwen3Moe", dict(head_dim=8, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24, **KV))
causal("phi3", "Phi3", dict(pad_token_id=0, **KV))
causal("stablelm", "StableLm", dict(num_key_value_heads=4))
causal("starcoder2", "Starcoder2", KV)
causal("olmo", "Olmo")
causal("olmo2", "Olmo2")
causal("olmoe", "Olmoe", dict(num_experts=4, num_experts_per_tok=2))
causal("cohere", "Cohere")
causal("cohere2", "Cohere2", dict(sliding_window=6, **KV))
transformer("xf_gemma3", "Gemma3ForCausalLM", "Gemma3TextConfig", masked(V, 12), options=NO_CACHE, head_dim=8, sliding_window=6, **{**S, **KV})
causal("granite", "Granite", KV)
causal("glm", "Glm", dict(head_dim=8, pad_token_id=0, **KV))
causal("nemotron", "Nemotron", KV)
causal("smollm3", "SmolLM3", dict(pad_token_id=0, **KV))
causal("helium", "Helium", dict(head_dim=8, **KV))
causal("ernie45", "Ernie4_5", dict(head_dim=8, **KV))
causal(
    "deepseek_v3",
    "DeepseekV3",
    dict(
        moe_intermediate_size=16,
        n_routed_experts=4,
        num_experts_per_tok=2,
        n_group=2,
        topk_group=1,
        q_lora_rank=16,
        kv_lora_rank=16,
        qk_rope_head_dim=8,
        qk_nope_head_dim=8,
        v_head_dim=8,
        first_k_dense_replace=1,
        num_key_value_heads=4,
    ),
)
causal("gpt_oss", "GptOss", dict(head_dim=8, num_local_experts=4, num_experts_per_tok=2, sliding_window=6, **KV))
causal("jetmoe", "JetMoe", dict(num_local_experts=4, num_experts_per_tok=2, kv_channels=8, num_key_value_heads=2))
causal("gptj", "GPTJ", base=dict(n_embd=32, n_layer=3, n_head=4, vocab_size=V, n_positions=32, rotary_dim=4))
causal("codegen", "CodeGen", base=dict(n_embd=32, n_layer=3, n_head=4, vocab_size=V, n_positions=32, n_ctx=32, rotary_dim=4))
causal("mpt", "Mpt", base=dict(d_model=32, n_layers=3, n_heads=4, vocab_size=V, max_seq_len=32))
causal(
    "gpt_neo",
    "GPTNeo",
    base=dict(
        hidden_size=32, num_layers=4, num_heads=4, vocab_size=V, max_position_embeddings=32, window_size=4, attention_types=[[["global", "local"], 2]]
    ),
)
causal("gpt_bigcode", "GPTBigCode", base=dict(n_embd=32, n_layer=3, n_head=4, vocab_size=V, n_positions=32))
causal("xglm", "XGLM", base=dict(d_model=32, num_layers=3, attention_heads=4, ffn_dim=48, vocab_size=V))
causal("persimmon", "Persimmon")
causal("biogpt", "BioGpt", dict(max_position_embeddings=32))
causal("ctrl", "CTRL", base=dict(n_embd=32, n_layer=3, n_head=4, dff=48, vocab_size=V, n_positions=32), kind="LMHeadModel")
causal("openai_gpt", "OpenAIGPT", base=dict(n_embd=32, n_layer=3, n_head=4, vocab_size=V, n_positions=32), kind="LMHeadModel", options={})
causal(
    "mamba2",
    "Mamba2",
    base=dict(hidden_size=32, num_hidden_layers=2, num_heads=8, head_dim=8, state_size=8, n_groups=2, vocab_size=V, chunk_size=4),
    inputs=only(V, 8),
    names=["input_ids"],
)
causal(
    "rwkv",
    "Rwkv",
    base=dict(hidden_size=32, attention_hidden_size=32, num_hidden_layers=2, vocab_size=V, context_length=16),
    inputs=only(V, 6),
    names=["input_ids"],
)
causal(
    "falcon_mamba", "FalconMamba", base=dict(hidden_size=32, num_hidden_layers=2, state_size=8, vocab_size=V), inputs=only(V, 6), names=["input_ids"]
)
causal(
    "jamba",
    "Jamba",
    dict(
        num_experts=2,
        num_experts_per_tok=1,
        attn_layer_period=2,
        attn_layer_offset=1,
        mamba_d_state=4,
        mamba_dt_rank=4,
        use_mamba_kernels=False,
        num_hidden_layers=2,
        pad_token_id=0,
        **KV
    ),
    inputs=masked(V, 6),
)
causal(
    "bamba",
    "Bamba",
    dict(mamba_n_heads=8, mamba_d_head=8, mamba_d_state=8, mamba_n_groups=1, mamba_chunk_size=4, attn_layer_indices=[1], **KV),
    inputs=masked(V, 8),
)
causal("phimoe", "Phimoe", dict(num_local_experts=4, num_experts_per_tok=2, **KV))
causal("granitemoe", "GraniteMoe", dict(num_local_experts=4, num_experts_per_tok=2, **KV))
causal("bitnet", "BitNet", KV)
causal(
    "xlm",
    "XLM",
    base=dict(emb_dim=32, n_layers=3, n_heads=4, vocab_size=V, n_words=V, max_position_embeddings=32),
    kind="WithLMHeadModel",
    options={},
)
causal("diffllama", "DiffLlama", KV)


class WithPast(nn.Module):
    """One step of decoding: keys and values come in as a flat list of tensors and go out with one more."""

    def __init__(self):
        super().__init__()
        import transformers

        self.m = transformers.LlamaForCausalLM(transformers.LlamaConfig(**{**S, **KV}))

    def forward(self, ids, *past):
        from transformers import DynamicCache

        cache = DynamicCache()
        for i in range(3):
            cache.update(past[2 * i], past[2 * i + 1], i)
        result = self.m(input_ids=ids, past_key_values=cache, use_cache=True)
        return result.logits, [t for layer in result.past_key_values.layers for t in (layer.keys, layer.values)]


add("xf_llama_with_past", WithPast, lambda batch: (randint(5, V, (batch, 1)), *[randn(batch, 2, 7, 8) for _ in range(6)]), "trace")


class TorchscriptFlag(nn.Module):
    def __init__(self, kind, config, **sizes):
        super().__init__()
        import transformers

        self.m = getattr(transformers, kind)(getattr(transformers, config)(return_dict=False, **sizes))

    def forward(self, ids, mask):
        return self.m(ids, attention_mask=mask)


add("xf_bert_tuple", lambda: TorchscriptFlag("BertModel", "BertConfig", **S), masked(V, 12), "trace")
add(
    "xf_gpt2_tuple",
    lambda: TorchscriptFlag("GPT2DoubleHeadsModel", "GPT2Config", n_embd=32, n_layer=3, n_head=4, vocab_size=V, use_cache=False),
    masked(V, 12),
    "trace",
)


class DictIn(nn.Module):
    """A dict in, a dict out."""

    def __init__(self):
        super().__init__()
        import transformers

        self.m = transformers.RobertaForTokenClassification(transformers.RobertaConfig(**S))

    def forward(self, batch):
        result = self.m(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], output_hidden_states=True)
        return {"logits": result.logits, "last": result.hidden_states[-1]}


add("xf_roberta_dict", DictIn, lambda b: (dict(zip(["input_ids", "attention_mask"], masked(V, 12)(b))),), "trace")

# Encoders.
M = masked(V, 12)
for name, prefix, kind, more in [
    ("deberta", "Deberta", "ForMaskedLM", dict(relative_attention=True, pos_att_type=["c2p", "p2c"])),
    ("electra", "Electra", "ForPreTraining", dict(embedding_size=16)),
    ("roberta", "Roberta", "ForSequenceClassification", {}),
    ("xlm_roberta", "XLMRoberta", "ForQuestionAnswering", {}),
    ("camembert", "Camembert", "ForMaskedLM", {}),
    ("mpnet", "MPNet", "ForMaskedLM", {}),
    ("longformer", "Longformer", "ForMaskedLM", dict(attention_window=4)),
    ("big_bird", "BigBird", "ForMaskedLM", dict(attention_type="original_full")),
    ("convbert", "ConvBert", "ForMaskedLM", dict(embedding_size=16)),
    ("squeezebert", "SqueezeBert", "ForMaskedLM", dict(embedding_size=32)),
    ("mobilebert", "MobileBert", "ForMaskedLM", dict(embedding_size=32, intra_bottleneck_size=32, true_hidden_size=32)),
    ("modernbert", "ModernBert", "ForMaskedLM", dict(pad_token_id=0, global_attn_every_n_layers=2, local_attention=4)),
    ("rembert", "RemBert", "ForMaskedLM", dict(input_embedding_size=16, output_embedding_size=16)),
    ("roformer", "RoFormer", "ForMaskedLM", dict(embedding_size=16)),
    ("ibert", "IBert", "ForMaskedLM", dict(quant_mode=False)),
    ("megatron_bert", "MegatronBert", "ForMaskedLM", {}),
    ("data2vec_text", "Data2VecText", "ForMaskedLM", {}),
    ("nystromformer", "Nystromformer", "ForMaskedLM", dict(num_landmarks=4, segment_means_seq_len=12, conv_kernel_size=3)),
    ("luke", "Luke", "ForMaskedLM", dict(entity_vocab_size=10)),
    ("layoutlm", "LayoutLM", "ForMaskedLM", {}),
    ("esm", "Esm", "ForMaskedLM", dict(pad_token_id=1, mask_token_id=4, position_embedding_type="rotary", max_position_embeddings=40)),
    ("mra", "Mra", "ForMaskedLM", {}),
]:
    transformer(
        "xf_" + name, prefix + kind, prefix + "Config", M, pick=(("start_logits", "end_logits") if "Question" in kind else "logits"), **{**S, **more}
    )
transformer(
    "xf_bigbird_sparse", "BigBirdForMaskedLM", "BigBirdConfig", masked(V, 64), attention_type="block_sparse", block_size=4, num_random_blocks=1, **S
)
transformer(
    "xf_longformer_global",
    "LongformerModel",
    "LongformerConfig",
    together(tokens(V, 16), padding(16), lambda b: torch.cat([torch.ones(b, 1), torch.zeros(b, 15)], 1).long()),
    ["input_ids", "attention_mask", "global_attention_mask"],
    pick="last_hidden_state",
    attention_window=4,
    **S
)
transformer(
    "xf_funnel", "FunnelForMaskedLM", "FunnelConfig", masked(V, 16), vocab_size=V, block_sizes=[1, 1, 1], d_model=32, n_head=4, d_head=8, d_inner=48
)
transformer(
    "xf_canine",
    "CanineForSequenceClassification",
    "CanineConfig",
    together(lambda b: randint(5, 1000, (b, 64)), padding(64)),
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=48,
    local_transformer_stride=32,
    downsampling_rate=4,
    num_hash_buckets=64,
)
transformer("xf_fnet", "FNetForMaskedLM", "FNetConfig", only(V, 12), ["input_ids"], **{k: v for k, v in S.items() if k != "num_attention_heads"})
transformer(
    "xf_perceiver",
    "PerceiverForMaskedLM",
    "PerceiverConfig",
    masked(V, 32),
    vocab_size=V,
    num_latents=8,
    d_latents=16,
    d_model=16,
    num_blocks=1,
    num_self_attends_per_block=2,
    num_self_attention_heads=2,
    num_cross_attention_heads=2,
    max_position_embeddings=32,
    qk_channels=16,
    v_channels=16,
)
transformer("xf_dpr", "DPRQuestionEncoder", "DPRConfig", M, pick="pooler_output", **S)
transformer(
    "xf_bert_nsp",
    "BertForNextSentencePrediction",
    "BertConfig",
    together(tokens(V, 12), padding(12), lambda b: torch.cat([torch.zeros(b, 5), torch.ones(b, 7)], 1).long()),
    ["input_ids", "attention_mask", "token_type_ids"],
    **S
)
transformer("xf_bert_generation", "BertGenerationDecoder", "BertGenerationConfig", M, is_decoder=True, options=NO_CACHE, **S)

# Encoder and decoder.
ED = dict(
    vocab_size=V,
    d_model=32,
    encoder_layers=2,
    decoder_layers=2,
    encoder_attention_heads=4,
    decoder_attention_heads=4,
    encoder_ffn_dim=48,
    decoder_ffn_dim=48,
)
P = pair(V)
for name, kind, config, more in [
    ("pegasus", "PegasusForConditionalGeneration", "PegasusConfig", {}),
    ("marian", "MarianMTModel", "MarianConfig", dict(pad_token_id=0, decoder_start_token_id=0)),
    ("mbart", "MBartForConditionalGeneration", "MBartConfig", {}),
    ("m2m", "M2M100ForConditionalGeneration", "M2M100Config", {}),
    ("blenderbot", "BlenderbotForConditionalGeneration", "BlenderbotConfig", {}),
    ("blenderbot_small", "BlenderbotSmallForConditionalGeneration", "BlenderbotSmallConfig", {}),
    ("led", "LEDForConditionalGeneration", "LEDConfig", dict(attention_window=4)),
    ("plbart", "PLBartForConditionalGeneration", "PLBartConfig", {}),
    ("bigbird_pegasus", "BigBirdPegasusForConditionalGeneration", "BigBirdPegasusConfig", dict(attention_type="original_full")),
    ("nllb_moe", "NllbMoeForConditionalGeneration", "NllbMoeConfig", dict(num_experts=2, encoder_sparse_step=2, decoder_sparse_step=2)),
    ("fsmt", "FSMTForConditionalGeneration", "FSMTConfig", dict(langs=["en", "de"], src_vocab_size=V, tgt_vocab_size=V)),
    ("mvp", "MvpForConditionalGeneration", "MvpConfig", {}),
]:
    sizes = {**ED, **more}
    if name == "fsmt":
        sizes.pop("vocab_size")
    transformer("xf_" + name, kind, config, P, PAIR, options=NO_CACHE, **sizes)
T5 = dict(vocab_size=V, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4)
transformer("xf_mt5", "MT5ForConditionalGeneration", "MT5Config", P, PAIR, options=NO_CACHE, **T5)
transformer(
    "xf_longt5", "LongT5ForConditionalGeneration", "LongT5Config", P, PAIR, options=NO_CACHE, local_radius=3, encoder_attention_type="local", **T5
)
transformer("xf_umt5", "UMT5ForConditionalGeneration", "UMT5Config", P, PAIR, options=NO_CACHE, **T5)
transformer(
    "xf_switch",
    "SwitchTransformersForConditionalGeneration",
    "SwitchTransformersConfig",
    P,
    PAIR,
    options=NO_CACHE,
    num_experts=2,
    num_sparse_encoder_layers=1,
    num_sparse_decoder_layers=1,
    **T5
)
transformer("xf_t5_encoder", "T5EncoderModel", "T5Config", M, pick="last_hidden_state", **T5)
transformer(
    "xf_prophetnet",
    "ProphetNetForConditionalGeneration",
    "ProphetNetConfig",
    P,
    PAIR,
    options=NO_CACHE,
    vocab_size=V,
    hidden_size=32,
    num_encoder_layers=2,
    num_decoder_layers=2,
    num_encoder_attention_heads=4,
    num_decoder_attention_heads=4,
    encoder_ffn_dim=48,
    decoder_ffn_dim=48,
    max_position_embeddings=64,
)
