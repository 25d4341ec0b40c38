// Dropout switched off in a module that stays in training mode.
#include "ir/graph/Dropout.h"

#include "ir/NodeInfo.h"

#include <gtest/gtest.h>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>

namespace pipec {
namespace {

torch::jit::Module moduleOf(const std::string &body) {
  torch::jit::Module module("__torch__.Dropping");
  module.define("def forward(self, x):\n" + body);
  return module;
}

at::Tensor call(torch::jit::Module &module, const at::Tensor &x) {
  return module.forward({x}).toTensor();
}

TEST(Dropout, DropsNothing) {
  for (const char *line :
       {"y = torch.dropout(x, 0.5, True)", "y = torch.native_dropout(x, 0.5, True)[0]",
        "y = torch.dropout_(x + 0, 0.5, True)", "y = torch.feature_dropout(x, 0.5, True)",
        "y = torch.alpha_dropout(x, 0.5, True)",
        "y = torch.dropout(x, 0.5, True) if x.size(0) > 1 else torch.dropout(x, 0.25, True)"}) {
    torch::jit::Module module =
        moduleOf(std::string("    ") + line + "\n    y += 1\n    return y\n");
    EXPECT_FALSE(anyNodeInside(module, drawsOtherThanDropout)) << line;
    turnOffDropout(module);
    const at::Tensor x = at::rand({4, 8});
    const at::Tensor before = x.clone();
    EXPECT_TRUE(at::equal(call(module, x), before + 1)) << line;
    EXPECT_TRUE(at::equal(x, before)) << "the result is a new tensor: " << line;
  }
}

TEST(Dropout, TheRateOfOthers) {
  torch::jit::Module module =
      moduleOf("    return torch.scaled_dot_product_attention(x, x, x, None, 0.5)\n");
  turnOffDropout(module);
  const at::Tensor x = at::rand({2, 4, 8});
  EXPECT_TRUE(at::equal(call(module, x), call(module, x)));
}

TEST(Dropout, OtherDrawsStay) {
  torch::jit::Module module =
      moduleOf("    return torch.rrelu(x, 0.1, 0.9, True) + torch.rand_like(x)\n");
  EXPECT_TRUE(anyNodeInside(module, drawsOtherThanDropout));
  turnOffDropout(module);
  const at::Tensor x = at::rand({4, 8}) - 1;
  EXPECT_FALSE(at::equal(call(module, x), call(module, x)));
}

} // namespace
} // namespace pipec
