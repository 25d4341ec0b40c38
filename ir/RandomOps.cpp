#include "ir/RandomOps.h"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace pipec {

namespace {

// All operators of LibTorch 2.11 that take a generator, and those that draw from the default one
// through such an operator (dropouts, recurrent networks and attention with dropout).
// Sorted; tests/runtime/RandomKeyTest.cpp looks in LibTorch's own registry for more.
constexpr std::string_view kNames[] = {
    "aten::_cudnn_attention_forward",
    "aten::_cudnn_rnn",
    "aten::_efficient_attention_forward",
    "aten::_flash_attention_forward",
    "aten::_fused_dropout",
    "aten::_no_grad_normal_",
    "aten::_no_grad_uniform_",
    "aten::_sample_dirichlet",
    "aten::_scaled_dot_product_attention_math",
    "aten::_scaled_dot_product_cudnn_attention",
    "aten::_scaled_dot_product_efficient_attention",
    "aten::_scaled_dot_product_flash_attention",
    "aten::_scaled_dot_product_flash_attention_for_cpu",
    "aten::_standard_gamma",
    "aten::alpha_dropout",
    "aten::alpha_dropout_",
    "aten::bernoulli",
    "aten::bernoulli_",
    "aten::binomial",
    "aten::cauchy",
    "aten::cauchy_",
    "aten::dropout",
    "aten::dropout_",
    "aten::exponential",
    "aten::exponential_",
    "aten::feature_alpha_dropout",
    "aten::feature_alpha_dropout_",
    "aten::feature_dropout",
    "aten::feature_dropout_",
    "aten::geometric",
    "aten::geometric_",
    "aten::gru",
    "aten::log_normal",
    "aten::log_normal_",
    "aten::lstm",
    "aten::multinomial",
    "aten::native_dropout",
    "aten::normal",
    "aten::normal_",
    "aten::normal_functional",
    "aten::poisson",
    "aten::rand",
    "aten::rand_like",
    "aten::randint",
    "aten::randint_like",
    "aten::randn",
    "aten::randn_like",
    "aten::random",
    "aten::random_",
    "aten::randperm",
    "aten::rnn_relu",
    "aten::rnn_tanh",
    "aten::rrelu",
    "aten::rrelu_",
    "aten::rrelu_with_noise",
    "aten::rrelu_with_noise_",
    "aten::rrelu_with_noise_functional",
    "aten::scaled_dot_product_attention",
    "aten::uniform",
    "aten::uniform_",
};
static_assert(std::is_sorted(std::begin(kNames), std::end(kNames)));

} // namespace

bool isRandomOp(llvm::StringRef qualifiedName) {
  return std::binary_search(std::begin(kNames), std::end(kNames),
                            std::string_view(qualifiedName.data(), qualifiedName.size()));
}

bool drawCountFollowsValues(llvm::StringRef qualifiedName) {
  return qualifiedName.contains("rrelu") || qualifiedName == "aten::poisson" ||
         qualifiedName == "aten::binomial" || qualifiedName == "aten::_standard_gamma" ||
         qualifiedName == "aten::_sample_dirichlet";
}

namespace {

/// Dropout and operators with a built-in dropout: with probability 0 or outside training they draw
/// nothing.
bool hasSwitch(llvm::StringRef name) {
  return name.contains("dropout") || name.contains("attention") || name.contains("rrelu") ||
         name.contains("rnn") || name == "aten::lstm" || name == "aten::gru";
}

} // namespace

Draws drawsWith(llvm::StringRef qualifiedName,
                llvm::function_ref<Argument(llvm::StringRef name)> argument) {
  if (!isRandomOp(qualifiedName))
    return Draws::Never;
  if (!hasSwitch(qualifiedName))
    return Draws::Always;
  bool unknown = false;
  for (llvm::StringRef name : {"train", "training", "p", "dropout", "dropout_p"}) {
    if (name == "p" && qualifiedName == "aten::native_dropout")
      continue; // with p = 0 it still draws
    Argument found = argument(name);
    if (found.state == Argument::State::Known && found.value == 0)
      return Draws::Never;
    unknown = unknown || found.state == Argument::State::Unknown;
  }
  return unknown ? Draws::Unknown : Draws::Always;
}

} // namespace pipec
