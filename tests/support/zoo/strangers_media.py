"""Families of transformers for speech, pictures and several of them at once, each with a small random configuration."""

import torch
from torch import rand, randint, randn

from libraries import NO_CACHE, masked, transformer
from registry import MODELS, add, image, padding, together, tokens
from strangers import ED, IMAGE, KV, S, V

# Speech.
SP = dict(
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=48,
    conv_dim=(16, 16, 16),
    conv_stride=(5, 4, 4),
    conv_kernel=(10, 8, 4),
    num_conv_pos_embeddings=16,
    num_conv_pos_embedding_groups=4,
    vocab_size=32,
)
WAVE = lambda b: (randn(b, 2000),)
WAVES = lambda b: (randn(b, 2000), torch.ones(b, 2000, dtype=torch.long))
transformer("xf_hubert", "HubertForCTC", "HubertConfig", WAVE, ["input_values"], **SP)
transformer("xf_hubert_mask", "HubertForCTC", "HubertConfig", WAVES, ["input_values", "attention_mask"], **SP)
transformer("xf_wavlm", "WavLMForCTC", "WavLMConfig", WAVE, ["input_values"], **SP)
transformer("xf_unispeech", "UniSpeechForCTC", "UniSpeechConfig", WAVE, ["input_values"], **SP)
transformer("xf_sew", "SEWForCTC", "SEWConfig", WAVE, ["input_values"], squeeze_factor=2, **SP)
transformer("xf_data2vec_audio", "Data2VecAudioForCTC", "Data2VecAudioConfig", WAVE, ["input_values"], **SP)
transformer("xf_wav2vec2_conformer", "Wav2Vec2ConformerForCTC", "Wav2Vec2ConformerConfig", WAVE, ["input_values"], **SP)
transformer("xf_wav2vec2_mask", "Wav2Vec2ForCTC", "Wav2Vec2Config", WAVES, ["input_values", "attention_mask"], **SP)
transformer(
    "xf_ast",
    "ASTForAudioClassification",
    "ASTConfig",
    lambda b: (randn(b, 64, 32),),
    ["input_values"],
    max_length=64,
    num_mel_bins=32,
    **{k: v for k, v in S.items() if k != "vocab_size"}
)
transformer(
    "xf_speech2text",
    "Speech2TextForConditionalGeneration",
    "Speech2TextConfig",
    together(lambda b: randn(b, 40, 16), tokens(V, 8)),
    ["input_features", "decoder_input_ids"],
    options=NO_CACHE,
    input_feat_per_channel=16,
    conv_channels=32,
    **ED
)
transformer(
    "xf_encodec",
    "EncodecModel",
    "EncodecConfig",
    lambda b: (randn(b, 1, 640),),
    ["input_values"],
    pick="audio_values",
    num_filters=4,
    hidden_size=16,
    codebook_size=32,
    codebook_dim=16,
    upsampling_ratios=[4, 2],
    num_lstm_layers=1,
)

# Vision.
VT = dict(hidden_size=32, num_hidden_layers=3, num_attention_heads=4, intermediate_size=48)
VI = dict(image_size=32, patch_size=8)
for name, kind, config, pick, more in [
    ("vit_mae", "ViTMAEModel", "ViTMAEConfig", "last_hidden_state", dict(mask_ratio=0.5)),
    ("deit", "DeiTForImageClassification", "DeiTConfig", "logits", {}),
    ("beit", "BeitForImageClassification", "BeitConfig", "logits", dict(use_relative_position_bias=True)),
    ("dinov2", "Dinov2ForImageClassification", "Dinov2Config", "logits", {}),
    ("dinov2_registers", "Dinov2WithRegistersModel", "Dinov2WithRegistersConfig", "last_hidden_state", {}),
    ("dinov3_vit", "DINOv3ViTModel", "DINOv3ViTConfig", "last_hidden_state", {}),
    ("ijepa", "IJepaModel", "IJepaConfig", "last_hidden_state", {}),
    ("vit_msn", "ViTMSNModel", "ViTMSNConfig", "last_hidden_state", {}),
    ("yolos", "YolosForObjectDetection", "YolosConfig", ("logits", "pred_boxes"), dict(image_size=[32, 32], num_detection_tokens=5)),
    ("siglip_vision", "SiglipVisionModel", "SiglipVisionConfig", "pooler_output", {}),
    ("clip_vision", "CLIPVisionModelWithProjection", "CLIPVisionConfig", "image_embeds", {}),
    (
        "dpt",
        "DPTForDepthEstimation",
        "DPTConfig",
        "predicted_depth",
        dict(num_hidden_layers=4, backbone_out_indices=[0, 1, 2, 3], neck_hidden_sizes=[8, 16, 16, 16], fusion_hidden_size=16),
    ),
    ("data2vec_vision", "Data2VecVisionModel", "Data2VecVisionConfig", "last_hidden_state", dict(use_relative_position_bias=True)),
    ("hiera", "HieraForImageClassification", "HieraConfig", "logits", None),
]:
    sizes = (
        dict(
            image_size=[32, 32],
            patch_size=[7, 7],
            patch_stride=[4, 4],
            patch_padding=[3, 3],
            embed_dim=16,
            depths=[1, 1],
            num_heads=[1, 2],
            embed_dim_multiplier=2.0,
            num_query_pool=1,
            query_stride=[2, 2],
            masked_unit_size=[4, 4],
            masked_unit_attention=[True, False],
        )
        if more is None
        else {**VT, **VI, **more}
    )
    transformer("xf_" + name, kind, config, image(32), IMAGE, pick=pick, **sizes)
for name, kind, config, pick, size, sizes in [
    (
        "swin",
        "SwinForImageClassification",
        "SwinConfig",
        "logits",
        32,
        dict(image_size=32, patch_size=4, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4),
    ),
    (
        "swinv2",
        "Swinv2ForImageClassification",
        "Swinv2Config",
        "logits",
        32,
        dict(image_size=32, patch_size=4, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4),
    ),
    (
        "swin2sr",
        "Swin2SRForImageSuperResolution",
        "Swin2SRConfig",
        "reconstruction",
        16,
        dict(image_size=16, patch_size=1, embed_dim=16, depths=[2, 2], num_heads=[2, 2], window_size=4, upscale=2),
    ),
    ("convnext", "ConvNextForImageClassification", "ConvNextConfig", "logits", 32, dict(hidden_sizes=[8, 16], depths=[1, 2], num_stages=2)),
    ("convnextv2", "ConvNextV2ForImageClassification", "ConvNextV2Config", "logits", 32, dict(hidden_sizes=[8, 16], depths=[1, 2], num_stages=2)),
    ("resnet", "ResNetForImageClassification", "ResNetConfig", "logits", 32, dict(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 2])),
    (
        "regnet",
        "RegNetForImageClassification",
        "RegNetConfig",
        "logits",
        32,
        dict(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 2], groups_width=4),
    ),
    ("mobilenet_v2", "MobileNetV2ForImageClassification", "MobileNetV2Config", "logits", 32, dict(depth_multiplier=0.25)),
    (
        "mobilevit",
        "MobileViTForImageClassification",
        "MobileViTConfig",
        "logits",
        32,
        dict(image_size=32, hidden_sizes=[16, 24, 32], neck_hidden_sizes=[8, 8, 16, 16, 24, 24, 32]),
    ),
    ("mobilevitv2", "MobileViTV2ForImageClassification", "MobileViTV2Config", "logits", 64, dict(image_size=64, width_multiplier=0.25)),
    (
        "pvt",
        "PvtForImageClassification",
        "PvtConfig",
        "logits",
        32,
        dict(
            image_size=32, hidden_sizes=[8, 16, 16, 32], num_attention_heads=[1, 2, 2, 4], depths=[1, 1, 1, 1], sequence_reduction_ratios=[4, 2, 1, 1]
        ),
    ),
    (
        "pvt_v2",
        "PvtV2ForImageClassification",
        "PvtV2Config",
        "logits",
        32,
        dict(image_size=32, hidden_sizes=[8, 16, 16, 32], num_attention_heads=[1, 2, 2, 4], depths=[1, 1, 1, 1]),
    ),
    ("poolformer", "PoolFormerForImageClassification", "PoolFormerConfig", "logits", 32, dict(hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1])),
    (
        "focalnet",
        "FocalNetForImageClassification",
        "FocalNetConfig",
        "logits",
        32,
        dict(image_size=32, embed_dim=8, hidden_sizes=[8, 16], depths=[1, 1], focal_levels=[2, 2], focal_windows=[3, 3]),
    ),
    (
        "efficientnet",
        "EfficientNetForImageClassification",
        "EfficientNetConfig",
        "logits",
        32,
        dict(width_coefficient=0.25, depth_coefficient=0.25, hidden_dim=320),
    ),
    (
        "levit",
        "LevitForImageClassification",
        "LevitConfig",
        "logits",
        64,
        dict(image_size=64, hidden_sizes=[16, 16, 16], num_attention_heads=[2, 2, 2], depths=[1, 1, 1], key_dim=[8, 8, 8]),
    ),
    (
        "glpn",
        "GLPNForDepthEstimation",
        "GLPNConfig",
        "predicted_depth",
        32,
        dict(depths=[1, 1, 1, 1], hidden_sizes=[8, 8, 16, 16], num_attention_heads=[1, 1, 2, 2], decoder_hidden_size=8),
    ),
    (
        "swiftformer",
        "SwiftFormerForImageClassification",
        "SwiftFormerConfig",
        "logits",
        64,
        dict(image_size=64, depths=[1, 1, 1, 1], embed_dims=[8, 8, 16, 16]),
    ),
    ("upernet", "UperNetForSemanticSegmentation", "UperNetConfig", "logits", 64, None),
    ("bit", "BitForImageClassification", "BitConfig", "logits", 32, dict(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], num_groups=2)),
    ("textnet", "TextNetForImageClassification", "TextNetConfig", "logits", 32, {}),
    (
        "vitdet",
        "VitDetModel",
        "VitDetConfig",
        "last_hidden_state",
        32,
        dict(
            hidden_size=32,
            num_hidden_layers=3,
            num_attention_heads=4,
            image_size=32,
            patch_size=8,
            window_size=2,
            window_block_indices=[0, 1],
            use_relative_position_embeddings=True,
        ),
    ),
    ("timesformer", "TimesformerModel", "TimesformerConfig", "last_hidden_state", None, dict(image_size=32, num_frames=2, **VT, patch_size=8)),
    ("videomae", "VideoMAEForVideoClassification", "VideoMAEConfig", "logits", None, dict(image_size=32, num_frames=2, **VT, patch_size=8)),
    ("vivit", "VivitModel", "VivitConfig", "last_hidden_state", None, dict(image_size=32, num_frames=2, tubelet_size=[2, 8, 8], **VT)),
]:
    if sizes is None:
        import transformers

        sizes = dict(
            backbone_config=transformers.ConvNextConfig(
                hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1], out_features=["stage1", "stage2", "stage3", "stage4"]
            ),
            hidden_size=16,
            use_auxiliary_head=False,
        )
    transformer("xf_" + name, kind, config, image(size) if size else lambda b: (randn(b, 2, 3, 32, 32),), IMAGE, pick=pick, **sizes)


def resnetBackbone():
    import transformers

    return transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1], out_features=["stage2", "stage3", "stage4"])


def detr(name, kind, config, inputs=image(64), pick=("logits", "pred_boxes"), names=IMAGE, **more):
    def make():
        import transformers
        from libraries import Positional

        inner = getattr(transformers, kind)(getattr(transformers, config)(**{k: v() if callable(v) else v for k, v in more.items()}))
        return Positional(inner, names, pick)

    add("xf_" + name, make, inputs, "trace")


def oneBackbone():
    import transformers

    return transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1], out_features=["stage4"])


DE = dict(
    use_timm_backbone=False,
    use_pretrained_backbone=False,
    backbone=None,
    d_model=32,
    encoder_layers=2,
    decoder_layers=2,
    encoder_attention_heads=4,
    decoder_attention_heads=4,
    encoder_ffn_dim=48,
    decoder_ffn_dim=48,
    num_queries=6,
)
detr("detr", "DetrForObjectDetection", "DetrConfig", backbone_config=oneBackbone, **DE)
detr("conditional_detr", "ConditionalDetrForObjectDetection", "ConditionalDetrConfig", backbone_config=oneBackbone, **DE)
detr("deformable_detr", "DeformableDetrForObjectDetection", "DeformableDetrConfig", backbone_config=resnetBackbone, **DE)
detr("table_transformer", "TableTransformerForObjectDetection", "TableTransformerConfig", backbone_config=oneBackbone, **DE)
detr(
    "rt_detr",
    "RTDetrForObjectDetection",
    "RTDetrConfig",
    d_model=32,
    encoder_hidden_dim=32,
    encoder_in_channels=[8, 16, 16],
    encoder_ffn_dim=48,
    encoder_attention_heads=4,
    decoder_layers=2,
    decoder_attention_heads=4,
    decoder_ffn_dim=48,
    decoder_in_channels=[32, 32, 32],
    num_queries=6,
    decoder_n_points=2,
    backbone_config=lambda: __import__("transformers").RTDetrResNetConfig(
        embedding_size=8, hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1], out_features=["stage2", "stage3", "stage4"], layer_type="basic"
    ),
)
detr(
    "sam_vision",
    "SamVisionModel",
    "SamVisionConfig",
    image(64),
    "last_hidden_state",
    hidden_size=32,
    output_channels=16,
    num_hidden_layers=3,
    num_attention_heads=4,
    image_size=64,
    patch_size=16,
    window_size=2,
    global_attn_indexes=[1],
    mlp_dim=48,
)


def sub(name):
    import transformers

    return getattr(transformers, name)


TEXT = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, vocab_size=V)
VIS = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, image_size=32, patch_size=8)
TI = lambda b: (randint(5, V, (b, 8)), randn(b, 3, 32, 32))
TIM = lambda b: (randint(5, V, (b, 8)), randn(b, 3, 32, 32), padding(8)(b))
TIN = ["input_ids", "pixel_values"]
TIMN = TIN + ["attention_mask"]
detr(
    "siglip",
    "SiglipModel",
    "SiglipConfig",
    TI,
    ("logits_per_image", "text_embeds", "image_embeds"),
    TIN,
    text_config=dict(**TEXT, max_position_embeddings=16),
    vision_config=VIS,
)
detr(
    "blip",
    "BlipForConditionalGeneration",
    "BlipConfig",
    TIM,
    "logits",
    TIMN,
    text_config=dict(**TEXT, encoder_hidden_size=32, bos_token_id=1, eos_token_id=2, sep_token_id=2, pad_token_id=0),
    vision_config=VIS,
    projection_dim=16,
)
detr(
    "blip_retrieval",
    "BlipForImageTextRetrieval",
    "BlipConfig",
    TIM,
    "itm_score",
    TIMN,
    text_config=dict(**TEXT, encoder_hidden_size=32, bos_token_id=1, eos_token_id=2, sep_token_id=2, pad_token_id=0),
    vision_config=VIS,
    image_text_hidden_size=16,
)
detr(
    "altclip",
    "AltCLIPModel",
    "AltCLIPConfig",
    TIM,
    ("logits_per_image", "text_embeds"),
    TIMN,
    text_config=dict(**TEXT, project_dim=16),
    vision_config=VIS,
    projection_dim=16,
)
detr(
    "chinese_clip",
    "ChineseCLIPModel",
    "ChineseCLIPConfig",
    TIM,
    ("logits_per_image", "text_embeds"),
    TIMN,
    text_config=TEXT,
    vision_config=VIS,
    projection_dim=16,
)
detr(
    "clipseg",
    "CLIPSegForImageSegmentation",
    "CLIPSegConfig",
    TIM,
    "logits",
    TIMN,
    text_config=TEXT,
    vision_config=VIS,
    projection_dim=16,
    extract_layers=[0, 1],
    reduce_dim=16,
    decoder_num_attention_heads=2,
    decoder_intermediate_size=16,
)
detr(
    "owlvit", "OwlViTForObjectDetection", "OwlViTConfig", TIM, ("logits", "pred_boxes"), TIMN, text_config=TEXT, vision_config=VIS, projection_dim=32
)
detr(
    "vilt",
    "ViltForQuestionAnswering",
    "ViltConfig",
    TIM,
    "logits",
    TIMN,
    **TEXT,
    image_size=32,
    patch_size=8,
    modality_type_vocab_size=2,
    num_labels=5
)
detr(
    "flava",
    "FlavaModel",
    "FlavaConfig",
    TIM,
    "multimodal_embeddings",
    TIMN,
    text_config=TEXT,
    image_config=VIS,
    multimodal_config=dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48),
    hidden_size=32,
)
detr(
    "groupvit",
    "GroupViTModel",
    "GroupViTConfig",
    TIM,
    ("logits_per_image",),
    TIMN,
    text_config=TEXT,
    vision_config=dict(
        hidden_size=32,
        depths=[1, 1, 1],
        num_hidden_layers=3,
        num_group_tokens=[4, 2, 0],
        num_output_groups=[4, 2, 0],
        num_attention_heads=4,
        intermediate_size=48,
        image_size=32,
        patch_size=8,
    ),
    projection_dim=16,
    projection_intermediate_dim=16,
)
detr(
    "trocr",
    "TrOCRForCausalLM",
    "TrOCRConfig",
    lambda b: (randint(5, V, (b, 8)), randn(b, 6, 32)),
    "logits",
    ["input_ids", "encoder_hidden_states"],
    vocab_size=V,
    d_model=32,
    decoder_layers=2,
    decoder_attention_heads=4,
    decoder_ffn_dim=48,
    cross_attention_hidden_size=32,
)
detr(
    "vision_encoder_decoder",
    "VisionEncoderDecoderModel",
    "VisionEncoderDecoderConfig",
    lambda b: (randn(b, 3, 32, 32), randint(5, V, (b, 8))),
    "logits",
    ["pixel_values", "decoder_input_ids"],
    encoder=lambda: sub("ViTConfig")(**VIS).to_dict(),
    decoder=lambda: sub("GPT2Config")(n_embd=32, n_layer=2, n_head=4, vocab_size=V, add_cross_attention=True, is_decoder=True).to_dict(),
)
detr(
    "llava",
    "LlavaForConditionalGeneration",
    "LlavaConfig",
    lambda b: (torch.cat([torch.full((b, 16), 5), randint(6, V, (b, 6))], 1), randn(b, 3, 32, 32)),
    "logits",
    TIN,
    text_config=lambda: sub("LlamaConfig")(**{**S, **KV}).to_dict(),
    vision_config=lambda: sub("CLIPVisionConfig")(**VIS).to_dict(),
    image_token_index=5,
    image_token_id=5,
    vision_feature_layer=-1,
)
detr(
    "patchtst",
    "PatchTSTForPrediction",
    "PatchTSTConfig",
    lambda b: (randn(b, 32, 3),),
    "prediction_outputs",
    ["past_values"],
    num_input_channels=3,
    context_length=32,
    patch_length=8,
    patch_stride=8,
    prediction_length=8,
    d_model=16,
    num_attention_heads=2,
    num_hidden_layers=2,
    ffn_dim=32,
    distribution_output=None,
    loss="mse",
)
detr(
    "patchtsmixer",
    "PatchTSMixerForPrediction",
    "PatchTSMixerConfig",
    lambda b: (randn(b, 32, 3),),
    "prediction_outputs",
    ["past_values"],
    num_input_channels=3,
    context_length=32,
    patch_length=8,
    patch_stride=8,
    prediction_length=8,
    d_model=8,
    num_layers=2,
    loss="mse",
)
detr(
    "decision_transformer",
    "DecisionTransformerModel",
    "DecisionTransformerConfig",
    lambda b: (randn(b, 5, 7), randn(b, 5, 2), randn(b, 5, 1), torch.arange(5).expand(b, 5).contiguous()),
    ("state_preds", "action_preds", "return_preds"),
    ["states", "actions", "returns_to_go", "timesteps"],
    state_dim=7,
    act_dim=2,
    hidden_size=32,
    max_ep_len=20,
    n_layer=2,
    n_head=2,
    vocab_size=1,
)
detr(
    "superpoint",
    "SuperPointForKeypointDetection",
    "SuperPointConfig",
    image(64),
    ("keypoints", "scores"),
    encoder_hidden_sizes=[8, 8, 16, 16],
    decoder_hidden_size=16,
    keypoint_decoder_dim=65,
    descriptor_decoder_dim=16,
)
detr(
    "vitpose",
    "VitPoseForPoseEstimation",
    "VitPoseConfig",
    image(32),
    "heatmaps",
    backbone_config=lambda: sub("VitPoseBackboneConfig")(
        image_size=[32, 32], patch_size=[8, 8], hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, out_indices=[2]
    ),
)
detr(
    "depth_anything",
    "DepthAnythingForDepthEstimation",
    "DepthAnythingConfig",
    image(28),
    "predicted_depth",
    reassemble_hidden_size=32,
    patch_size=14,
    neck_hidden_sizes=[8, 8, 16, 16],
    fusion_hidden_size=8,
    head_hidden_size=8,
    reassemble_factors=[4, 2, 1, 0.5],
    backbone_config=lambda: sub("Dinov2Config")(
        image_size=28,
        patch_size=14,
        hidden_size=32,
        num_hidden_layers=4,
        num_attention_heads=4,
        out_features=["stage1", "stage2", "stage3", "stage4"],
        reshape_hidden_states=False,
    ),
)
detr(
    "visual_bert",
    "VisualBertModel",
    "VisualBertConfig",
    lambda b: (randint(5, V, (b, 8)), padding(8)(b), randn(b, 4, 20)),
    "last_hidden_state",
    ["input_ids", "attention_mask", "visual_embeds"],
    visual_embedding_dim=20,
    **TEXT
)
detr(
    "lxmert",
    "LxmertModel",
    "LxmertConfig",
    lambda b: (randint(5, V, (b, 8)), randn(b, 4, 20), rand(b, 4, 4)),
    ("language_output", "vision_output", "pooled_output"),
    ["input_ids", "visual_feats", "visual_pos"],
    vocab_size=V,
    hidden_size=32,
    num_attention_heads=4,
    intermediate_size=48,
    l_layers=1,
    x_layers=1,
    r_layers=1,
    visual_feat_dim=20,
)
detr("splinter", "SplinterModel", "SplinterConfig", masked(V, 12), "last_hidden_state", ["input_ids", "attention_mask"], **TEXT)
detr(
    "xmod",
    "XmodForMaskedLM",
    "XmodConfig",
    masked(V, 12),
    "logits",
    ["input_ids", "attention_mask"],
    default_language="en_XX",
    languages=("en_XX", "de_DE"),
    **TEXT
)
detr(
    "tapas",
    "TapasModel",
    "TapasConfig",
    lambda b: (randint(5, V, (b, 12)), padding(12)(b), torch.zeros(b, 12, 7, dtype=torch.long)),
    "last_hidden_state",
    ["input_ids", "attention_mask", "token_type_ids"],
    **TEXT
)
detr(
    "clap_text",
    "ClapTextModelWithProjection",
    "ClapTextConfig",
    masked(V, 12),
    "text_embeds",
    ["input_ids", "attention_mask"],
    projection_dim=16,
    **TEXT
)
detr(
    "musicgen_decoder",
    "MusicgenForCausalLM",
    "MusicgenDecoderConfig",
    lambda b: (randint(0, 30, (b * 2, 6)),),
    "logits",
    ["input_ids"],
    vocab_size=32,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    ffn_dim=48,
    num_codebooks=2,
)
detr(
    "univnet",
    "UnivNetModel",
    "UnivNetConfig",
    lambda b: (randn(b, 10, 16), randn(b, 10, 8)),
    "waveforms",
    ["input_features", "noise_sequence"],
    model_in_channels=8,
    model_hidden_channels=8,
    num_mel_bins=16,
    resblock_kernel_sizes=[3],
    resblock_stride_sizes=[4],
    resblock_dilation_sizes=[[1, 3]],
    kernel_predictor_hidden_channels=8,
)
detr(
    "speecht5_hifigan",
    "SpeechT5HifiGan",
    "SpeechT5HifiGanConfig",
    lambda b: (randn(b, 10, 16),),
    lambda r: r,
    ["spectrogram"],
    model_in_dim=16,
    upsample_initial_channel=16,
    upsample_rates=[4, 4],
    upsample_kernel_sizes=[8, 8],
    resblock_kernel_sizes=[3],
    resblock_dilation_sizes=[[1, 3]],
)

for name in ("xf_vit_mae", "xf_vilt"):  # which patches are seen is drawn
    MODELS[name].random = True
