// What a rewrite rests on: recorded by the pass that did it, discharged by the validator.
#pragma once

#include "ir/plan/Failure.h"

#include <cstdint>
#include <string>

namespace pipec {

/// One thing that a pass did or believed and that somebody has to check:
///
///   recompute aten::size 2 times in stage 3      rematerialise repeated an operator; validation
///                                                counts the operators of each stage
///   fact input x has rank 2                      fold-constants used it; the runtime checks dtype
///   fact result 0 of aten::relu in a has dtype float32   and rank of every input again, and they
///                                                decide those of the results
struct Obligation {
  enum class Kind { Recompute, Fact };
  Kind kind = Kind::Fact;
  std::string of;       // Recompute: the operator; Fact: the value, as "input x"
  std::string property; // Fact: "rank" or "dtype"
  std::string value;    // Fact: "2", "float32"
  int64_t times = 0;    // Recompute: >= 1
  size_t stage = 0;     // Recompute

  static Obligation recompute(std::string of, int64_t times, size_t stage) {
    return {Kind::Recompute, std::move(of), "", "", times, stage};
  }
  static Obligation fact(std::string of, std::string property, std::string value) {
    return {Kind::Fact, std::move(of), std::move(property), std::move(value), 0, 0};
  }
  bool operator==(const Obligation &) const = default;
};

/// One line; parseObligation reads it back.
std::string toString(const Obligation &obligation);

/// Errors: BadArtifact quoting the text and the form it should have.
llvm::Expected<Obligation> parseObligation(llvm::StringRef text);

} // namespace pipec
