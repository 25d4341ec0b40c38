#include "compiler/cost/MemoryBoundOperators.h"

#include "llvm/ADT/StringSet.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/enum_tag.h>

namespace pipec {

namespace {

// Beside LibTorch's own list of pointwise operators; without "aten::" and the "_" of those that
// write into their first argument.
constexpr const char *kStreams[] = {
    // moved
    "contiguous", "clone", "copy", "to", "type_as", "reshape", "flatten", "unflatten", "cat",
    "concat", "concatenate", "stack", "hstack", "vstack", "dstack", "column_stack", "pad",
    "constant_pad_nd", "reflection_pad1d", "reflection_pad2d", "reflection_pad3d",
    "replication_pad1d", "replication_pad2d", "replication_pad3d", "roll", "flip", "fliplr",
    "flipud", "rot90", "repeat", "repeat_interleave", "tile", "expand", "index", "index_put",
    "index_select", "index_add", "index_copy", "index_fill", "gather", "scatter", "scatter_add",
    "scatter_reduce", "masked_fill", "masked_select", "masked_scatter", "take", "take_along_dim",
    "embedding", "embedding_bag", "one_hot", "tril", "triu", "meshgrid", "pixel_shuffle",
    "pixel_unshuffle", "channel_shuffle", "unfold", "im2col", "col2im", "diag", "diagonal",
    "diag_embed", "slice_scatter", "select_scatter", "view_as_real", "view_as_complex", "complex",
    "split", "chunk", "unbind", "narrow", "squeeze", "unsqueeze", "transpose", "permute", "t",
    "view", "movedim", "swapaxes", "detach", "alias",
    // made
    "arange", "range", "linspace", "zeros", "ones", "full", "empty", "eye", "zeros_like",
    "ones_like", "full_like", "empty_like", "new_zeros", "new_ones", "new_full", "new_empty",
    "tensor", "as_tensor", "scalar_tensor", "fill", "zero", "rand", "rand_like", "randn",
    "randn_like", "randint", "randint_like", "bernoulli", "normal", "uniform", "tril_indices",
    "triu_indices", "affine_grid_generator",
    // reduced
    "sum", "nansum", "mean", "nanmean", "max", "min", "amax", "amin", "aminmax", "argmax", "argmin",
    "prod", "std", "var", "std_mean", "var_mean", "norm", "linalg_vector_norm", "linalg_norm",
    "any", "all", "cumsum", "cumprod", "logsumexp", "logcumsumexp", "count_nonzero", "trace",
    "bincount", "equal",
    // normalised
    "batch_norm", "layer_norm", "group_norm", "instance_norm", "rms_norm", "native_batch_norm",
    "native_layer_norm", "native_group_norm", "_batch_norm_impl_index", "normalize",
    "local_response_norm", "softmax", "log_softmax", "_softmax", "_log_softmax", "_weight_norm",
    // pooled, resized
    "avg_pool1d", "avg_pool2d", "avg_pool3d", "adaptive_avg_pool1d", "adaptive_avg_pool2d",
    "adaptive_avg_pool3d", "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d",
    "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "upsample_linear1d",
    "upsample_bilinear2d", "upsample_bicubic2d", "upsample_trilinear3d", "__interpolate",
    "grid_sampler", "grid_sampler_2d", "grid_sampler_3d",
    // others that read each element once
    "dropout", "feature_dropout", "alpha_dropout", "native_dropout", "dropout1d", "dropout2d",
    "dropout3d", "glu", "prelu", "rrelu", "where", "mse_loss", "l1_loss", "smooth_l1_loss",
    "huber_loss", "nll_loss", "nll_loss_nd", "nll_loss2d", "cross_entropy_loss", "kl_div",
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_similarity",
    "cosine_embedding_loss", "pairwise_distance", "hinge_embedding_loss", "margin_ranking_loss",
    "poisson_nll_loss", "soft_margin_loss", "__and__", "__or__", "__xor__", "__lshift__",
    "__rshift__", "diff", "isclose", "allclose", "nan_to_num", "clamp", "clip", "add", "sub", "mul",
    "div", "pow", "rsub", "abs", "relu", "sigmoid", "hardtanh", "threshold"};

/// Names as in kStreams.
llvm::StringSet<> makeStreams() {
  llvm::StringSet<> names;
  for (const char *name : kStreams)
    names.insert(name);
  c10::Dispatcher &all = c10::Dispatcher::singleton();
  for (const c10::OperatorName &name : all.getAllOpNames()) {
    const auto op = all.findOp(name);
    llvm::StringRef plain = name.name;
    if (op && op->hasTag(at::Tag::pointwise) && plain.consume_front("aten::"))
      names.insert(plain);
  }
  return names;
}

} // namespace

bool isMemoryBound(llvm::StringRef op) {
  static const llvm::StringSet<> streams = makeStreams();
  if (!op.consume_front("aten::"))
    return false;
  if (streams.count(op))
    return true;
  return op.consume_back("_") && streams.count(op);
}

} // namespace pipec
