// Names of the arguments of a stage's methods. No LibTorch.
#pragma once

#include "ir/plan/Plan.h"

#include <set>

namespace pipec {

/// Schemas need distinct names that are identifiers: "a.b" becomes a_b, and a second a_b becomes
/// a_b_use1.
class ArgumentNames {
public:
  std::string next(llvm::StringRef name);

private:
  std::set<std::string> taken_ = {"self"};
};

/// The arguments of pipec_forward without self: the inputs, then one per use of each attribute.
std::vector<std::string> argumentNames(const StagePlan &stage);

} // namespace pipec
