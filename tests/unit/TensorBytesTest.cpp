// Digests of tensors, and the quick way to say that two are the same.
#include "ir/TensorBytes.h"

#include "ir/support/Sha256.h"

#include <gtest/gtest.h>

#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>

namespace pipec {
namespace {

TEST(TensorBytes, ADigestIsOfTheElementsInLogicalOrder) {
  const at::Tensor tensor = at::arange(6, at::kByte).view({2, 3});
  EXPECT_EQ(tensorDigest(tensor), sha256Hex(llvm::StringRef("\0\1\2\3\4\5", 6)));
  EXPECT_EQ(tensorDigest(tensor.t()), sha256Hex(llvm::StringRef("\0\3\1\4\2\5", 6)));
}

TEST(TensorBytes, SameBitsAreSameFormAndSameBytes) {
  const at::Tensor tensor = at::arange(6, at::kFloat).view({2, 3});
  EXPECT_TRUE(haveSameBits(tensor, tensor.clone()));
  EXPECT_TRUE(haveSameBits(tensor.t(), tensor.clone().t()));
  at::Tensor other = tensor.clone();
  other[1][2] = -5;
  EXPECT_FALSE(haveSameBits(tensor, other));
  EXPECT_FALSE(haveSameBits(tensor, tensor.view({3, 2})));
  EXPECT_FALSE(haveSameBits(tensor, tensor.t().contiguous().t())); // same elements, other strides
  EXPECT_FALSE(haveSameBits(tensor, tensor.view(at::kInt)));
  EXPECT_FALSE(haveSameBits(tensor, tensor.clone().set_requires_grad(true)));
  const at::Tensor large = at::zeros({(int64_t(20) << 20) + 3}, at::kByte); // compared in two parts
  EXPECT_TRUE(haveSameBits(large, large.clone()));
  for (int64_t place : {int64_t(0), large.numel() / 2 - 1, large.numel() / 2, large.numel() - 1}) {
    at::Tensor changed = large.clone();
    changed.data_ptr<uint8_t>()[place] ^= 1;
    EXPECT_FALSE(haveSameBits(large, changed)) << place;
    const bool atAnEnd = place == 0 || place == large.numel() - 1;
    EXPECT_EQ(haveSameBits(large, changed, /*copy=*/true), !atAnEnd) << place;
  }
  EXPECT_TRUE(haveSameBits(tensor, tensor.clone(), /*copy=*/true));
  EXPECT_FALSE(haveSameBits(tensor, other, /*copy=*/true));
  EXPECT_FALSE(haveSameBits(tensor.slice(1, 0, 2), tensor.slice(1, 0, 2))); // not compared
  EXPECT_FALSE(haveSameBits(at::Tensor(), tensor));
}

} // namespace
} // namespace pipec
