"""Further models of the same and other families, each tried as the first ones are."""
import torch
from torch import nn, rand, randint, randn

import corners
from libraries import LLAMA, NO_CACHE, PAIR, Positional, TOWER, masked, only, pair, timm, transformer, vision
from own import vector
from registry import add, image, model, padding, together, tokens


# --- torchvision, timm -----------------------------------------------------------------------------------------------------------
vision("tv_convnext_tiny", "convnext_tiny", 64)
vision("tv_efficientnet_b0", "efficientnet_b0", 64)
vision("tv_maxvit_t", "maxvit_t", 224)
vision("tv_regnet_y_400mf_trace", "regnet_y_400mf", 64, "trace")
vision("tv_shufflenet_v2", "shufflenet_v2_x1_0", 64)
vision("tv_fcn_resnet50", "segmentation.fcn_resnet50", 64, weights=None, weights_backbone=None, num_classes=5)
vision("tv_lraspp", "segmentation.lraspp_mobilenet_v3_large", 64, weights=None, weights_backbone=None, num_classes=5)
add("tv_r3d_18", lambda: __import__("torchvision").models.video.r3d_18(), lambda batch: (randn(batch, 3, 4, 32, 32),))
add("tv_swin3d_t", lambda: __import__("torchvision").models.video.swin3d_t(), lambda batch: (randn(batch, 3, 4, 64, 64),))
add("tv_raft_small", lambda: __import__("torchvision").models.optical_flow.raft_small(),
    lambda batch: (rand(batch, 3, 128, 128), rand(batch, 3, 128, 128), 2))
timm("timm_convnext_atto", "convnext_atto", 64)
timm("timm_swin_tiny", "swin_tiny_patch4_window7_224", 224)
timm("timm_efficientnet_lite0", "efficientnet_lite0", 64, "script")
timm("timm_maxvit_rmlp_pico", "maxvit_rmlp_pico_rw_256", 256)
timm("timm_mobilevit_xxs", "mobilevit_xxs", 128)
timm("timm_levit_128s", "levit_128s", 224)
timm("timm_xcit_nano", "xcit_nano_12_p16_224", 224)
timm("timm_nfnet_f0", "dm_nfnet_f0", 64, "script")
timm("timm_ghostnet", "ghostnet_100", 64, "script")
timm("timm_beit_base", "beit_base_patch16_224", 224, depth=4)

# --- transformers ----------------------------------------------------------------------------------------------------------------
SMALL = dict(hidden_size=128, num_hidden_layers=6, num_attention_heads=4, intermediate_size=256, vocab_size=2000)
for name, kind, config, more in [
        ("hf_mistral", "MistralForCausalLM", "MistralConfig", dict(num_key_value_heads=2, sliding_window=8)),
        ("hf_qwen2", "Qwen2ForCausalLM", "Qwen2Config", dict(num_key_value_heads=2)),
        ("hf_phi", "PhiForCausalLM", "PhiConfig", {}),
        ("hf_gpt_neox", "GPTNeoXForCausalLM", "GPTNeoXConfig", {}),
        ("hf_gemma", "GemmaForCausalLM", "GemmaConfig", dict(num_key_value_heads=1, head_dim=32))]:
    transformer(name, kind, config, masked(2000), options=NO_CACHE, **{**SMALL, **more})
transformer("hf_falcon", "FalconForCausalLM", "FalconConfig", masked(2000), options=NO_CACHE, hidden_size=128, num_hidden_layers=6,
            num_attention_heads=4, vocab_size=2000)
transformer("hf_opt", "OPTForCausalLM", "OPTConfig", masked(2000), options=NO_CACHE, hidden_size=128, num_hidden_layers=6, ffn_dim=256,
            num_attention_heads=4, vocab_size=2000, word_embed_proj_dim=128)
transformer("hf_bart", "BartForConditionalGeneration", "BartConfig", pair(2000), PAIR, options=NO_CACHE, vocab_size=2000, d_model=128,
            encoder_layers=3, decoder_layers=3, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=256, decoder_ffn_dim=256)
transformer("hf_whisper", "WhisperForConditionalGeneration", "WhisperConfig",
            together(lambda batch: randn(batch, 16, 100), tokens(2000, 12)), ["input_features", "decoder_input_ids"], options=NO_CACHE,
            vocab_size=2000, num_mel_bins=16, d_model=64, encoder_layers=3, decoder_layers=3, encoder_attention_heads=4,
            decoder_attention_heads=4, encoder_ffn_dim=128, decoder_ffn_dim=128, max_source_positions=50, max_target_positions=40,
            pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)
transformer("hf_wav2vec2", "Wav2Vec2ForCTC", "Wav2Vec2Config", lambda batch: (randn(batch, 4000),), ["input_values"], hidden_size=64,
            num_hidden_layers=4, num_attention_heads=4, intermediate_size=128, vocab_size=32, conv_dim=(32, 32, 32), conv_stride=(5, 4, 4),
            conv_kernel=(10, 8, 4), num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4)
transformer("hf_deberta_v2", "DebertaV2ForMaskedLM", "DebertaV2Config", masked(2000), relative_attention=True, pos_att_type=["p2c", "c2p"],
            position_buckets=16, **SMALL)
transformer("hf_roberta_hidden", "RobertaModel", "RobertaConfig", masked(2000), pick=lambda result: {
    "last": result.last_hidden_state, "third": result.hidden_states[3], "pooled": result.pooler_output}, options=dict(output_hidden_states=True), **SMALL)
transformer("hf_distilbert", "DistilBertForSequenceClassification", "DistilBertConfig", masked(2000), dim=128, n_layers=6, n_heads=4,
            hidden_dim=256, vocab_size=2000)
transformer("hf_xlnet", "XLNetLMHeadModel", "XLNetConfig", masked(2000), d_model=128, n_layer=4, n_head=4, d_inner=256, vocab_size=2000)
transformer("hf_vit", "ViTForImageClassification", "ViTConfig", image(64), ["pixel_values"], image_size=64, patch_size=16, **TOWER)
transformer("hf_segformer", "SegformerForSemanticSegmentation", "SegformerConfig", image(64), ["pixel_values"], depths=[1, 1, 1, 1],
            hidden_sizes=[16, 32, 64, 128], num_attention_heads=[1, 2, 4, 8], decoder_hidden_size=64)
transformer("hf_llama_f16", "LlamaForCausalLM", "LlamaConfig", masked(8000), dtype=torch.float16, options=NO_CACHE, **{**LLAMA, "num_hidden_layers": 4})

# --- our own ---------------------------------------------------------------------------------------------------------------------
C = corners
add("own_fpn", C.Fpn, image(64))
add("own_cached_decoder", C.CachedDecoder,
    lambda batch: (randint(0, 100, (batch, 5)), [(randn(batch, 3, 32), randn(batch, 3, 32)) for _ in range(6)]))
add("own_cache_in_buffers", C.CacheInBuffers, vector(32), stateful=True)
add("own_last_hidden", C.LastHidden, vector(32), stateful=True)
add("own_kinds", C.Kinds, vector(32))
add("own_early_returns", C.EarlyReturns, vector(32))
add("own_greedy", C.Greedy, vector(32))
add("own_fourier", C.Fourier, lambda batch: (randn(batch, 16, 32),))
add("own_precisions", C.Precisions, vector(32))
add("own_bags", C.Bags, lambda batch: (randint(0, 50, (batch, 4)), rand(batch, 4), randint(0, 50, (batch, 3)), randint(0, 50, (batch, 2))))
add("own_recurrent", C.Recurrent, lambda batch: (randn(5, batch, 24), randn(2, batch, 24)))
add("own_packed", C.Packed, lambda batch: (randint(0, 100, (batch, 7)), torch.arange(7, 7 - batch, -1)))
add("own_time_first", C.TimeFirst, lambda batch: (randn(6, batch, 32), torch.zeros(6, 6), randn(6, 32)))
add("own_decoder", C.Decoder, lambda batch: (randn(batch, 5, 32), randn(batch, 7, 32), torch.arange(7).expand(batch, 7) > 5))
add("own_graph", C.Graph, lambda batch: (randn(10, 16), randint(0, 10, (2, 30))))
add("own_wavenet", C.WaveNet, lambda batch: (randn(batch, 1, 40),))
add("own_parts", C.Parts, vector(32))
add("own_slots", C.Slots, vector(16))
add("own_empty", C.Empty, vector(16))
add("own_futures", C.Futures, vector(16))
add("own_objects", C.Objects, vector(16))
add("own_interfaces", C.Interfaces, vector(16))
add("own_methods", C.Methods, lambda batch: {"x": randn(batch, 32), "shift": randn(batch, 32)})
add("own_unions", C.Unions, vector(16))
add("own_experts", C.Experts, vector(16), stateful=True)
add("own_conformer", C.Conformer, lambda batch: (randn(batch, 20, 40), torch.full((batch,), 40)))
add("own_diffusion", C.Diffusion, lambda batch: (randn(batch, 3, 32, 32), randint(0, 1000, (batch,))))
add("own_vae_train", C.Vae, vector(32), train=True, random=True)
add("own_scan", C.Scan, lambda batch: (randn(batch, 6, 16),))
add("own_script_in_trace", C.ScriptInTrace, lambda batch: ({"a": randn(batch, 16), "b": randn(batch, 16)},), "trace")
add("own_shared_tables_trace", C.SharedTables, lambda batch: (randint(0, 40, (batch, 6)),), "trace")
add("own_talks", C.Talks, vector(16))


@model("own_static_quant", "trace")
def staticQuant():
    from torch.ao.quantization import DeQuantStub, QuantStub, convert, get_default_qconfig, prepare

    layers = [layer for _ in range(4) for layer in (nn.Conv2d(8, 8, 3, padding=1), nn.ReLU())]
    net = nn.Sequential(QuantStub(), nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), *layers, DeQuantStub(), nn.Flatten(), nn.Linear(8 * 256, 4)).eval()
    net.qconfig = get_default_qconfig("fbgemm")
    net[-1].qconfig = None
    net = prepare(net)
    net(randn(4, 3, 16, 16))
    return convert(net), image(16)
