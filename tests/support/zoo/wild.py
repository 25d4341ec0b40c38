"""Programs as their authors write them, scripted and traced, and more of timm and torchvision: the list."""

import torch
from torch import nn, rand, randint, randn

from libraries import timm, vision
from own import vector
from registry import add, image
from wild_sequences import (
    AdaptiveOde,
    Beam,
    CharCnn,
    Crf,
    CustomLstm,
    Deq,
    Flow,
    Generator,
    Ode,
    Seq2Seq,
    StyleGan,
    Transducer,
    VectorQuantised,
    oldWeightNorm,
    tcn,
)
from wild_graphs import Capsule, Dueling, GraphNet, Hyper, PointNet, Policy, SetTransformer, Spline, SquashedGaussian, TwoTower, WideDeep
from wild_vision import ConvLstm, FourierOperator, Inverse, Nerf, Siren, SpatialTransformer, Spectrogram, StackedHourglass, Yolo, YoloPlain
from wild_state import (
    Branches,
    Checkpointed,
    Ema,
    GruState,
    LinearAttention,
    Lists,
    Mixed,
    Mlpmixer2,
    MomentumContrast,
    Named,
    NeuralTuring,
    Norms,
    Perplexity,
    Pools,
    Ragged,
    Registry,
    RotaryCache,
    Rotating,
    Sparse,
    SparseBuffer,
    SwitchMoe,
    Tied,
    UniversalTransformer,
)
from wild_language import (
    Ensemble,
    Facts,
    Halving,
    LeavesEarly,
    LimitedNorms,
    OptionalTrees,
    Packed,
    Tasks,
    UsesAnObject,
    WritesViews,
)
from wild_saving import Exported, Lora, LowRank, TwoWays, deep, fxQuantised, pruned, quantised, saving

S = saving
W = lambda name, make, inputs, save="script", **facts: add("wi_" + name, make, inputs, save, **facts)
W("seq2seq", Seq2Seq, lambda b: (randint(0, 60, (b, 7)), randint(0, 60, (b, 5)), torch.ones(b, 7)))
W("seq2seq_nomask", Seq2Seq, lambda b: (randint(0, 60, (b, 7)), randint(0, 60, (b, 5))))
W("beam", Beam, vector(16))
W("transducer", Transducer, lambda b: (randn(b, 8, 10), torch.full((b,), 8), randint(1, 15, (b, 4))))
W("charcnn", CharCnn, lambda b: (randint(0, 50, (b, 9)),))
W("tcn", tcn, lambda b: (randn(b, 4, 20),), "trace")
W("old_norms", oldWeightNorm, vector(8), "trace")
W("crf", Crf, lambda b: (randn(b, 6, 12), torch.ones(b, 6).bool()))
W("custom_lstm", CustomLstm, lambda b: (randn(b, 5, 12), [[(randn(b, 12), randn(b, 12)) for _ in range(2)] for _ in range(3)]))
W("generator", Generator, lambda b: (randn(b, 8), randint(0, 4, (b,))))
W("stylegan", StyleGan, vector(12))
W("vq", VectorQuantised, image(16))
W("vq_train", VectorQuantised, image(16), train=True, stateful=True)
W("flow", Flow, vector(8))
W("flow_reverse", Flow, lambda b: (randn(b, 8), True))
W("ode", Ode, vector(8))
W("adaptive_ode", AdaptiveOde, vector(8))
W("deq", Deq, vector(8))
W("graph", GraphNet, lambda b: (randn(5 * b, 6), randint(0, 5 * b, (2, 12 * b)), torch.arange(b).repeat_interleave(5), rand(12 * b)))
W("pointnet", PointNet, lambda b: (randn(b, 20, 3),))
W("set_transformer", SetTransformer, lambda b: (randn(b, 7, 16),))
W("capsule", Capsule, image(22, 1))
W("kan", lambda: nn.Sequential(Spline(6, 8), nn.LayerNorm(8), Spline(8, 8), nn.LayerNorm(8), Spline(8, 2)), vector(6))
W("hyper", Hyper, lambda b: (randn(b, 6), randn(b, 4)))
W(
    "policy",
    Policy,
    lambda b: (
        {"frame": randint(0, 255, (b, 4, 16, 16)).to(torch.uint8), "vector": randn(b, 6), "mask": rand(b, 5) > 0.2},
        (randn(b, 24), randn(b, 24)),
    ),
)
W("policy_nostate", Policy, lambda b: ({"frame": randint(0, 255, (b, 4, 16, 16)).to(torch.uint8), "vector": randn(b, 6)},))
W("sac", SquashedGaussian, vector(6), random=True)
W("sac_mean", SquashedGaussian, lambda b: (randn(b, 6), True))
W("dueling", Dueling, vector(8))
W("dueling_train", Dueling, vector(8), train=True)
W("widedeep", WideDeep, lambda b: (randn(b, 4), [randint(0, 40, (b, 3)) for _ in range(3)]))
W("twotower", TwoTower, lambda b: (randint(0, 50, (b, 6)), randint(1, 6, (b,)), randint(0, 50, (b,))))
W("hourglass", StackedHourglass, image(16))
W("yolo", Yolo, image(32), stateful=True)
W("yolo_plain", YoloPlain, image(32))
W("stn", SpatialTransformer, image(16, 1))
W("convlstm", ConvLstm, lambda b: (randn(b, 3, 1, 8, 8),))
W("nerf", Nerf, lambda b: (randn(b, 3), randn(b, 3)))
W("siren", Siren, vector(2))
W("fno", FourierOperator, lambda b: (randn(b, 16, 1),))
W("spectrogram", Spectrogram, lambda b: (randn(b, 400), torch.full((b,), 400)))
W("griffin", Inverse, lambda b: (rand(b, 17, 12),))
W("ntm", NeuralTuring, lambda b: (randn(b, 4, 5),))
W("moco", MomentumContrast, lambda b: (randn(b, 6), randn(b, 6)), stateful=True)
W("ema_train", Ema, vector(8), train=True, stateful=True)
W("ema", Ema, vector(8))
W("moco_frozen_eval", VectorQuantised, image(16), S("frozen"))
W("rotary_cache", RotaryCache, lambda b: (randn(b, 6, 8),), stateful=True)
W("named", Named, lambda b: (randn(b, 8), randint(0, 8, (b,))))
W("named_none", Named, vector(8))
W("named_kw", Named, lambda b: {"x": randn(b, 8), "scale": 0.5, "keep": False})
W("branches", Branches, image(8))
W("registry", Registry, lambda b: (randn(b, 8), ["alpha", "delta"]))
W("ragged", Ragged, lambda b: (randn(b, 6, 6), torch.arange(6).unsqueeze(0) < torch.arange(b).unsqueeze(1) % 4 + 2))
W("sparse", Sparse, lambda b: (randn(10, 6),))
W("sparse_buffer", SparseBuffer, lambda b: (randn(10, 6),))
W("rotating", Rotating, lambda b: (randn(b, 5, 8),))
W("half", Mixed, vector(16))
W("bfloat", lambda: Mixed(16, torch.bfloat16), vector(16))
W("lists", Lists, image(16))
W("distill", Checkpointed, vector(8))
W("einsum", Mlpmixer2, lambda b: (randn(b, 6, 8),))
W("retention", LinearAttention, lambda b: (randn(b, 4, 8),))
W("switch", SwitchMoe, vector(8))
W("tied", Tied, vector(12))
W("universal", UniversalTransformer, lambda b: (randn(b, 5, 8),))
W("perplexity", Perplexity, lambda b: (randint(0, 40, (b, 6)),))
W("norms", Norms, image(8))
W("segnet", Pools, image(8), "trace")
W("raft", GruState, lambda b: (randn(b, 3, 8, 8), randn(b, 3, 8, 8)))
for how in ("frozen", "frozenTrace"):
    W("deep_" + how, deep, image(16), S(how))
W("seq2seq_frozen", Seq2Seq, lambda b: (randint(0, 60, (b, 7)), randint(0, 60, (b, 5)), torch.ones(b, 7)), S("frozen"))
W("policy_frozen", Policy, lambda b: ({"frame": randint(0, 255, (b, 4, 16, 16)).to(torch.uint8), "vector": randn(b, 6)},), S("frozen"))
W("two_ways", TwoWays, vector(8), S("method"))
W("exported", Exported, vector(8))
W("low_rank", LowRank, vector(8), "trace")
W("pruned", pruned, vector(8), "trace")
W("lora", Lora, vector(8), "trace")
W("quant_lstm", lambda: quantised("lstm"), lambda b: (randint(0, 30, (b, 6)),))
W("quant_gru", lambda: quantised("gru16"), lambda b: (randn(b, 6, 8),))
W("quant_static", lambda: quantised("static"), image(8))
W("quant_static_trace", lambda: quantised("static"), image(8), "trace")
W("quant_qat", lambda: quantised("qat"), vector(8), "trace")
W("quant_fx", fxQuantised, image(8))
W("quant_fx_trace", fxQuantised, image(8), "trace")
W(
    "transformer_pre",
    lambda: nn.TransformerEncoder(
        nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=True, activation="gelu"), 4, enable_nested_tensor=False
    ),
    lambda b: (randn(b, 5, 16),),
)
W("transformer_fast", lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 4), lambda b: (randn(b, 5, 16),))
W(
    "transformer_fast_trace",
    lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 4),
    lambda b: (randn(b, 5, 16),),
    "trace",
)
W("transformer_full", lambda: nn.Transformer(16, 2, 2, 2, 32, batch_first=True), lambda b: (randn(b, 5, 16), randn(b, 4, 16)))
W("leaves_early", LeavesEarly, vector(6))
W("leaves_late", LeavesEarly, lambda b: (randn(b, 6), 0.99))
W("halving", Halving, vector(6))
W("optional_none", OptionalTrees, vector(6))
W("optional_all", OptionalTrees, lambda b: (randn(b, 6), (randn(b, 6), [randn(b, 6)]), 3, {"a": randn(b, 6), "b": None}))
W("facts", Facts, vector(6))
W("tasks", Tasks, lambda b: (randn(b, 6), "reg"))
W("ensemble", Ensemble, vector(6))
W("packed", Packed, lambda b: (randint(0, 30, (b, 7)), randint(1, 8, (b,))))
W("object", UsesAnObject, vector(6))
W("views", WritesViews, vector(6))
W("max_norm", LimitedNorms, lambda b: (randint(0, 9, (b, 3)),), stateful=True)

# timm and torchvision.
for name, known, size, how in [
    ("deit_tiny", "deit_tiny_patch16_224", 224, "trace"),
    ("vit_script", "vit_tiny_patch16_224", 224, "script"),
    ("cait", "cait_xxs24_224", 224, "trace"),
    ("pit", "pit_ti_224", 224, "trace"),
    ("tnt", "tnt_s_patch16_224", 224, "trace"),
    ("twins", "twins_pcpvt_small", 224, "trace"),
    ("coat", "coat_lite_tiny", 224, "trace"),
    ("convit", "convit_tiny", 224, "trace"),
    ("crossvit", "crossvit_tiny_240", 240, "trace"),
    ("volo", "volo_d1_224", 224, "trace"),
    ("poolformer", "poolformer_s12", 64, "script"),
    ("edgenext", "edgenext_xx_small", 64, "script"),
    ("efficientformer", "efficientformer_l1", 224, "trace"),
    ("fastvit", "fastvit_t8", 64, "trace"),
    ("repvit", "repvit_m0_9", 64, "script"),
    ("mobilenetv4", "mobilenetv4_conv_small", 64, "script"),
    ("dla", "dla34", 64, "script"),
    ("resnest", "resnest14d", 64, "script"),
    ("skresnet", "skresnet18", 64, "script"),
    ("vovnet", "ese_vovnet19b_dw", 64, "script"),
    ("cspdarknet", "cspresnet50", 64, "script"),
    ("rexnet", "rexnet_100", 64, "script"),
    ("tresnet", "tresnet_m", 64, "script"),
    ("hardcorenas", "hardcorenas_a", 64, "script"),
    ("gcvit", "gcvit_xxtiny", 224, "trace"),
    ("nest", "nest_tiny", 224, "trace"),
    ("visformer", "visformer_tiny", 224, "script"),
    ("davit", "davit_tiny", 64, "trace"),
    ("hiera", "hiera_tiny_224", 224, "trace"),
    ("mvitv2", "mvitv2_tiny", 224, "trace"),
    ("swinv2", "swinv2_tiny_window8_256", 256, "trace"),
    ("coatnet", "coatnet_nano_rw_224", 224, "trace"),
    ("botnet", "botnet26t_256", 256, "script"),
    ("halonet", "halonet26t", 256, "script"),
    ("lambda", "lambda_resnet26t", 256, "script"),
    ("eca", "ecaresnet26t", 64, "script"),
    ("inception_resnet", "inception_resnet_v2", 96, "script"),
    ("xception", "xception41", 64, "script"),
    ("nasnet", "nasnetalarge", 96, "script"),
    ("pnasnet", "pnasnet5large", 96, "script"),
    ("sequencer", "sequencer2d_s", 224, "trace"),
    ("gmlp", "gmixer_12_224", 224, "trace"),
    ("resmlp", "resmlp_12_224", 224, "trace"),
    ("focalnet", "focalnet_tiny_srf", 64, "script"),
    ("inceptionnext", "inception_next_atto", 64, "script"),
    ("metaformer", "caformer_s18", 64, "trace"),
    ("tiny_vit", "tiny_vit_5m_224", 224, "trace"),
    ("rdnet", "rdnet_tiny", 64, "script"),
    ("starnet", "starnet_s1", 64, "script"),
    ("hgnet", "hgnet_tiny", 64, "script"),
    ("vitamin", "vitamin_small_224", 224, "trace"),
    ("nextvit", "nextvit_small", 64, "trace"),
    ("samvit", "samvit_base_patch16_224", 224, "trace"),
    ("mambaout", "mambaout_femto", 64, "script"),
    ("efficientvit", "efficientvit_b0", 64, "script"),
    ("efficientvit_msra", "efficientvit_m0", 224, "trace"),
    ("regnetz", "regnetz_b16", 64, "script"),
    ("tf_efficientnetv2", "tf_efficientnetv2_b0", 64, "script"),
    ("shvit", "shvit_s1", 64, "script"),
    ("naflexvit", "naflexvit_base_patch16_gap", 64, "trace"),
    ("eva", "eva02_tiny_patch14_224", 224, "script"),
]:
    timm("ti_" + name, known, size, how)
for name, path, size, how, options in [
    ("alexnet", "alexnet", 64, "script", {}),
    ("vgg11_bn", "vgg11_bn", 32, "script", {}),
    ("squeezenet", "squeezenet1_1", 64, "script", {}),
    ("mnasnet", "mnasnet0_5", 64, "script", {}),
    ("mobilenet_v2", "mobilenet_v2", 64, "trace", {}),
    ("resnext50", "resnext50_32x4d", 64, "script", {}),
    ("efficientnet_v2_s", "efficientnet_v2_s", 64, "script", {}),
    ("swin_v2_t", "swin_v2_t", 64, "script", {}),
    ("quant_resnet18", "quantization.resnet18", 64, "script", dict(quantize=True)),
    ("quant_mobilenet_v2", "quantization.mobilenet_v2", 64, "script", dict(quantize=False)),
    ("quant_googlenet", "quantization.googlenet", 64, "script", dict(quantize=True, init_weights=False)),
    ("quant_shufflenet", "quantization.shufflenet_v2_x0_5", 64, "trace", dict(quantize=True)),
    ("deeplab_resnet", "segmentation.deeplabv3_resnet50", 64, "script", dict(weights=None, weights_backbone=None, num_classes=3, aux_loss=True)),
    ("inception_train", "inception_v3", 128, "script", dict(init_weights=False)),
]:
    vision("tv_" + name, path, size, how, train=name.endswith("_train"), **options)
for name, path in [("mc3", "mc3_18"), ("r2plus1d", "r2plus1d_18"), ("s3d", "s3d"), ("mvit_v1", "mvit_v1_b")]:
    size = 224 if name == "mvit_v1" else 64
    frames = 16 if name in ("mvit_v1", "s3d") else 4
    add(
        "tv_" + name,
        lambda path=path: getattr(__import__("torchvision").models.video, path)(),
        lambda b, size=size, frames=frames: (randn(b, 3, frames, size, size),),
        "trace" if name == "mvit_v1" else "script",
    )
add(
    "tv_raft_large_one",
    lambda: __import__("torchvision").models.optical_flow.raft_large(),
    lambda b: (rand(b, 3, 128, 128), rand(b, 3, 128, 128), 2),
    "script",
)


def boxes(kind, **options):
    from torchvision.models import detection

    return lambda: getattr(detection, kind)(weights=None, weights_backbone=None, num_classes=4, **options)


PICTURES = lambda b: ([rand(3, 64 + 16 * i, 96) for i in range(b)],)
add("tv_retinanet", boxes("retinanet_resnet50_fpn", min_size=64, max_size=96), PICTURES)
add("tv_ssdlite", boxes("ssdlite320_mobilenet_v3_large"), PICTURES)
add("tv_ssd300", boxes("ssd300_vgg16"), PICTURES)
add("tv_fcos", boxes("fcos_resnet50_fpn", min_size=64, max_size=96), PICTURES)
add("tv_maskrcnn", boxes("maskrcnn_resnet50_fpn", min_size=64, max_size=96), PICTURES)
add(
    "tv_keypointrcnn",
    lambda: __import__("torchvision").models.detection.keypointrcnn_resnet50_fpn(
        weights=None, weights_backbone=None, num_classes=2, num_keypoints=3, min_size=64, max_size=96
    ),
    PICTURES,
)
