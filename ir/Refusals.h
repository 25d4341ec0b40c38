// What pipec refuses a model for: the one table behind exit code 4, docs/refusals.md and the tests
// that hold one case of each. No LibTorch here.
#pragma once

#include "ir/support/Error.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <array>

namespace pipec {

enum class Refusal {
  MarkerInBlock,
  MarkerArguments,
  MarkerComputes,
  ModuleInBlock,
  ClassUnknown,
  NoBody,
  ModuleAsValue,
  ObjectAttribute,
  AttributeType,
  SharedAttribute,
  MetaTensor,
  ReservedName,
  Awaitable,
  NoTextForm,
  TypeOfModel,
  ResultWithoutForm,
  TooFewPlaces,
  CutNotPossible,
};

/// A row of the table. `message` has {} where the caller's words go, the place (operator, source
/// line, module) first; `help` is one likely fix, with {} for what words are left then; `meaning`
/// what a user reads in the docs.
struct RefusalRow {
  Refusal refusal;
  llvm::StringLiteral name; // kebab-case; tests/passes/refusals/NAME.* is its case
  llvm::StringLiteral message;
  llvm::StringLiteral help;
  llvm::StringLiteral meaning;
};

/// All of them, in the order of the enumeration.
llvm::ArrayRef<RefusalRow> refusals();

/// The error of `refusal` with `details` for the {} of its message and then of its help, one each.
/// Nothing else makes an error of exit code 4.
llvm::Error refuse(Refusal refusal, llvm::ArrayRef<std::string> details);

template <typename... Details> llvm::Error refuseWith(Refusal refusal, const Details &...details) {
  const std::array<std::string, sizeof...(Details)> texts{fmt::format("{}", details)...};
  return refuse(refusal, texts);
}

} // namespace pipec
