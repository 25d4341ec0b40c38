// An assumption of a rewrite: the pass that made the rewrite records it, the validator discharges
// it.
#pragma once

#include "ir/support/Failure.h"
#include "llvm/ADT/ArrayRef.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pipec {

/// One thing that a pass did or assumed and that must be checked:
///
///   recompute aten::size 2 times in stage 3      rematerialise repeated an operator; validation
///                                                counts the operators of each stage
///   reorder operators 0-11 30-40 12-29           choose-cuts moved operators; validation puts them
///                                                back and looks whether they may be moved
///   fact input x has rank 2                      fold-constants used it; the runtime checks dtype
///   fact result 0 of aten::relu in a has dtype float32   and rank of every input again, and they
///                                                decide those of the results
struct Obligation {
  enum class Kind { Recompute, Reorder, Fact };
  Kind kind = Kind::Fact;
  std::string of;       // Recompute: the operator; Fact: the value, as "input x"; Reorder: runs of
                        // the source's canonical operators, in the order of the stages
  std::string property; // Fact: "rank", "dtype" or "value"
  std::string value;    // Fact: "2", "float32", "None"
  int64_t times = 0;    // Recompute: >= 1
  size_t stage = 0;     // Recompute

  static Obligation recompute(std::string of, int64_t times, size_t stage) {
    return {Kind::Recompute, std::move(of), "", "", times, stage};
  }
  static Obligation fact(std::string of, std::string property, std::string value) {
    return {Kind::Fact, std::move(of), std::move(property), std::move(value), 0, 0};
  }
  static Obligation reorder(llvm::ArrayRef<size_t> order);
  bool operator==(const Obligation &) const = default;
};

/// The order that the Reorder obligation of the list gives; absent: the source's order.
std::optional<std::vector<size_t>> orderOf(llvm::ArrayRef<Obligation> obligations);

/// One line; parseObligation reads it back.
std::string toString(const Obligation &obligation);

/// Errors: BadArtifact quoting the text and the expected form.
llvm::Expected<Obligation> parseObligation(llvm::StringRef text);

} // namespace pipec
