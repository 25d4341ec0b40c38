// The reasons for which pipec refuses a model: the one table behind exit code 4, docs/refusals.md
// and the tests that hold one case of each. No LibTorch here.
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
  ValuesDtype,
  ParametersOfOneMemory,
  TrainedContainer,
  ParameterInContainer,
  StateWithGradient,
  StateOfWeight,
  GradMode,
  HiddenTensors,
  InnerGradient,
  GraphState,
  TooFewPlaces,
  CutNotPossible,
};

/// A row of the table. `message` has a {} for each detail of the caller; the first is the place
/// (operator, source line, module). `help` is one likely fix, with {} for the remaining details.
/// `meaning` is the explanation in the docs.
struct RefusalRow {
  Refusal refusal;
  llvm::StringLiteral name; // kebab-case; tests/passes/refusals/NAME.* is its case
  llvm::StringLiteral message;
  llvm::StringLiteral help;
  llvm::StringLiteral meaning;
};

/// All rows, in the order of the enumeration.
llvm::ArrayRef<RefusalRow> refusals();

/// Makes the error of `refusal`. `details` fill the {} of its message and then of its help, one
/// each. Every error of exit code 4 is made here.
llvm::Error refuse(Refusal refusal, llvm::ArrayRef<std::string> details);

template <typename... Details> llvm::Error refuseWith(Refusal refusal, const Details &...details) {
  const std::array<std::string, sizeof...(Details)> texts{fmt::format("{}", details)...};
  return refuse(refusal, texts);
}

} // namespace pipec
