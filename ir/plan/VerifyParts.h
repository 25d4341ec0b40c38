// The parts of verify(Plan), one file each, and the words that they share. Only for ir/plan.
#pragma once

#include "ir/plan/Plan.h"
#include "ir/support/Error.h"

namespace pipec::planparts {

template <typename... Args> llvm::Error bad(fmt::format_string<Args...> format, Args &&...args) {
  return failf(ExitCode::BadArtifact, format, std::forward<Args>(args)...);
}

/// A problem at a place: "stage 2, input 0".
template <typename... Args>
llvm::Error badAt(const std::string &where, fmt::format_string<Args...> format, Args &&...args) {
  return failf(ExitCode::BadArtifact, "{}: {}", where,
               fmt::format(format, std::forward<Args>(args)...));
}

/// "stage 2, attribute head.weight", "channel 3 (c3)".
std::string attributeName(const Plan &plan, size_t stage, size_t index);
std::string channelName(const Plan &plan, size_t index);

/// What is said of a tensor agrees with itself: dtype, number of strides, and `bytes`, which are
/// those of the sizes at the example's batch.
llvm::Error verifyTensor(const Plan &plan, const std::string &where, const TensorSpec &spec);

/// Arguments and results: names, trees, batch dimensions and merge rules against the sizes that the
/// example runs showed.
llvm::Error verifySignature(const Plan &plan);

/// Attributes of the stages and what each stage does to them. Needs valid indices of channels in
/// attributes only.
llvm::Error verifyWeights(const Plan &plan);

/// Who holds and who is sent what several stages use. Needs valid channels.
llvm::Error verifyTies(const Plan &plan);

/// Facts that folds relied on and operators that are computed again.
llvm::Error verifyObligations(const Plan &plan);

} // namespace pipec::planparts
