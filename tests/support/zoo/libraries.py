"""Models of torchvision, timm and transformers with random weights: built from their configurations, nothing is downloaded."""
import torch
from torch import nn

from registry import add, image, model, padding, together, tokens


# --- torchvision -----------------------------------------------------------------------------------------------------------------
def vision(name, path, size, save="script", train=False, **options):
    """A model of torchvision.models, named by its path there."""
    def make():
        import torchvision

        function = torchvision.models
        for part in path.split("."):
            function = getattr(function, part)
        return function(**options)
    add(name, make, image(size), save, train, stateful=train, random=train)  # dropout


vision("tv_resnet50", "resnet50", 96)
vision("tv_resnet18_trace", "resnet18", 96, "trace")
vision("tv_inception_v3", "inception_v3", 128, init_weights=False)
vision("tv_googlenet_train", "googlenet", 96, train=True, init_weights=False)
vision("tv_densenet121", "densenet121", 96)
vision("tv_mobilenet_v3_large", "mobilenet_v3_large", 96)
vision("tv_vit_b_16", "vit_b_16", 96, image_size=96)
vision("tv_swin_t", "swin_t", 96)
vision("tv_deeplabv3_mnv3", "segmentation.deeplabv3_mobilenet_v3_large", 96, weights=None, weights_backbone=None, num_classes=8, aux_loss=True)


def pictures(batch):
    return ([torch.rand(3, 96 + 16 * i, 128) for i in range(batch)],)


@model("tv_fasterrcnn_mnv3_320", "script")
def fasterrcnn():
    from torchvision.models import detection

    return detection.fasterrcnn_mobilenet_v3_large_320_fpn(weights=None, weights_backbone=None, num_classes=5).eval(), pictures


# --- timm ------------------------------------------------------------------------------------------------------------------------
def timm(name, known, size, save="trace", **options):
    def make():
        import timm

        return timm.create_model(known, pretrained=False, **options)
    add(name, make, image(size), save)


timm("timm_mixer_s16", "mixer_s16_224", 224)
timm("timm_hrnet_w18_small", "hrnet_w18_small", 96)
timm("timm_eva02_tiny", "eva02_tiny_patch14_224", 224)
timm("timm_res2net50", "res2net50_26w_4s", 96, "script")


# --- transformers ----------------------------------------------------------------------------------------------------------------
class Positional(nn.Module):
    """A model of transformers as a function of positional arguments, whose names are `names`; `pick` says what of its result is wanted."""

    def __init__(self, inner, names, pick="logits", **options):
        super().__init__()
        self.m, self.names, self.pick, self.options = inner, list(names), pick, options

    def forward(self, *values):
        result = self.m(**dict(zip(self.names, values)), **self.options)
        if callable(self.pick):
            return self.pick(result)
        if isinstance(self.pick, str):
            return getattr(result, self.pick)
        return tuple(getattr(result, name) for name in self.pick)


def transformer(name, kind, config, inputs, names=("input_ids", "attention_mask"), pick="logits", dtype=None, options=None, **sizes):
    """`kind` and `config` are names of classes; `sizes` go to the configuration, `options` to forward."""
    def make():
        import transformers

        inner = getattr(transformers, kind)(getattr(transformers, config)(**sizes))
        return Positional(inner if dtype is None else inner.to(dtype), names, pick, **(options or {}))
    add(name, make, inputs, "trace")


def masked(vocabulary, length=32):
    return together(tokens(vocabulary, length), padding(length))


def only(vocabulary, length=32):
    return together(tokens(vocabulary, length))


NO_CACHE = dict(use_cache=False)
BERT = dict(hidden_size=256, num_hidden_layers=8, num_attention_heads=4, intermediate_size=1024, vocab_size=30522, tie_word_embeddings=True)
transformer("hf_bert_mlm", "BertForMaskedLM", "BertConfig", masked(30522), **BERT)
transformer("hf_bert_mlm_nomask", "BertForMaskedLM", "BertConfig", only(30522), ["input_ids"], **BERT)


def caches(result):
    return result.logits, tuple((layer.keys, layer.values) for layer in result.past_key_values.layers)


GPT2 = dict(n_embd=256, n_layer=8, n_head=4, vocab_size=50257)
transformer("hf_gpt2_lm", "GPT2LMHeadModel", "GPT2Config", masked(50257), options=NO_CACHE, **GPT2)
transformer("hf_gpt2_cache", "GPT2LMHeadModel", "GPT2Config", masked(50257), pick=caches, options=dict(use_cache=True), **GPT2)
transformer("hf_gpt2_small_full", "GPT2LMHeadModel", "GPT2Config", masked(50257), options=NO_CACHE, n_embd=768, n_layer=12, n_head=12,
            vocab_size=50257)

LLAMA = dict(hidden_size=256, intermediate_size=688, num_hidden_layers=8, num_attention_heads=4, num_key_value_heads=2, vocab_size=8000)
for name, kind, config, dtype, more in [
        ("hf_llama", "LlamaForCausalLM", "LlamaConfig", None, dict(tie_word_embeddings=False)),
        ("hf_llama_tied", "LlamaForCausalLM", "LlamaConfig", None, dict(tie_word_embeddings=True)),
        ("hf_llama_bf16", "LlamaForCausalLM", "LlamaConfig", torch.bfloat16, {}),
        ("hf_gemma2", "Gemma2ForCausalLM", "Gemma2Config", None, dict(head_dim=64)),
        ("hf_mixtral", "MixtralForCausalLM", "MixtralConfig", None, dict(num_local_experts=4, num_experts_per_tok=2, num_hidden_layers=4))]:
    transformer(name, kind, config, masked(8000), dtype=dtype, options=NO_CACHE, **{**LLAMA, **more})
transformer("hf_mamba", "MambaForCausalLM", "MambaConfig", only(8000, 8), ["input_ids"], options=NO_CACHE, hidden_size=128, num_hidden_layers=4,
            vocab_size=8000, state_size=8)

PAIR = ["input_ids", "attention_mask", "decoder_input_ids"]


def pair(vocabulary):
    return together(tokens(vocabulary, 24), padding(24), tokens(vocabulary, 16))


transformer("hf_t5_cg", "T5ForConditionalGeneration", "T5Config", pair(32128), PAIR, options=NO_CACHE, vocab_size=32128, d_model=256, d_kv=64,
            d_ff=1024, num_layers=4, num_heads=4)
transformer("hf_albert", "AlbertForMaskedLM", "AlbertConfig", masked(10000), hidden_size=256, num_hidden_layers=8, num_attention_heads=4,
            intermediate_size=512, vocab_size=10000, embedding_size=64)

TOWER = dict(hidden_size=128, num_hidden_layers=4, num_attention_heads=4, intermediate_size=256)
transformer("hf_clip", "CLIPModel", "CLIPConfig",
            together(tokens(5000, 16), lambda batch: torch.randn(batch, 3, 64, 64), padding(16)),
            ["input_ids", "pixel_values", "attention_mask"], ("logits_per_image", "text_embeds", "image_embeds"),
            text_config=dict(**TOWER, vocab_size=5000, eos_token_id=2), vision_config=dict(**TOWER, image_size=64, patch_size=16), projection_dim=64)
