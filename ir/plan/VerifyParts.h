// The parts of verify(Plan), one file each, and the helpers that they share. Only for ir/plan.
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

/// Faults that do not hide each other, such as those of several channels: reported all at once.
class Faults {
public:
  void note(llvm::Error error);
  /// One of them as it is; several as "3 faults: ...; ...; ...", at most ten with their texts.
  /// Success: none was noted.
  llvm::Error take();

private:
  std::vector<std::string> messages_;
};

/// "stage 2, attribute head.weight", "channel 3 (c3)".
std::string attributeName(const Plan &plan, size_t stage, size_t index);
std::string channelName(const Plan &plan, size_t index);

/// Checks that the description of a tensor is consistent: dtype, number of strides, and `bytes`,
/// which must follow from the sizes at the example's batch.
llvm::Error verifyTensor(const Plan &plan, const std::string &where, const TensorSpec &spec);

/// Checks arguments and results: names, trees, and batch dimensions and merge rules against the
/// sizes that the example runs showed.
llvm::Error verifySignature(const Plan &plan);

/// Checks the attributes of the stages and the stages' effects on them. Needs valid indices of
/// channels in attributes only.
llvm::Error verifyWeights(const Plan &plan);

/// Checks which stages hold and which receive an attribute that several stages use. Needs valid
/// channels.
llvm::Error verifyTies(const Plan &plan);

/// Checks loss, parameters and stages of a training. Needs valid leaves and attributes.
llvm::Error verifyTraining(const Plan &plan);

/// Checks the facts that folds relied on, and the operators that are computed again.
llvm::Error verifyObligations(const Plan &plan);

} // namespace pipec::planparts
