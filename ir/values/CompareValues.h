// Comparison of two trees of values.
#pragma once

#include <ATen/core/ivalue.h>

#include <optional>
#include <string>

namespace pipec {

/// "a list of 3" or "a value of type Tensor": in the words of a user, not in LibTorch's.
std::string describedKind(const c10::IValue &value);

struct Comparison {
  bool equal = true;
  int64_t numbers = 0; // number of elements compared; tensors whose shapes or dtypes differ are not
                       // compared
  double maxAbs = 0, maxRel = 0;
  std::string firstDifference; // "output 1.logits[0,3]: expected 0.5, got 0.25"; empty when equal
  std::string where, expected, actual; // the parts of that: "1.logits[0,3]", "0.5", "0.25"
};
/// Compares trees. Without rtol and atol: the defaults of torch.testing.assert_close for the dtype.
/// Both 0: bit for bit (NaN equals NaN). `root`: what the whole tree is called, one word.
Comparison compare(const c10::IValue &expected, const c10::IValue &actual,
                   std::optional<double> rtol, std::optional<double> atol,
                   const std::string &root = "output");

} // namespace pipec
