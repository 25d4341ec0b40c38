// What simplification takes from the types that an example run shows, as data: with it the same
// source is normalised in the same way once more, without running anything.
#pragma once

#include "ir/plan/Obligation.h"

#include <map>
#include <vector>

namespace pipec {

/// remove-inplace asks of a write whether the new value would have the form of the old one. By
/// number of its run and of the question, both from 0: those that types answer otherwise than
/// operators alone; from 1 << 23 on: steps of fold-constants before it that rest on a fact.
using FormAnswers = std::map<size_t, std::vector<size_t>>;

/// One text per run: "3:0-15,17".
std::vector<std::string> printForms(const FormAnswers &answers);
/// Errors: BadArtifact quoting the text.
llvm::Expected<FormAnswers> parseForms(const std::vector<std::string> &texts);

/// Travels with a model through its simplification.
struct TypeAnswers {
  bool given = false;            // ask here and not the types
  std::vector<Obligation> facts; // given: ranks and dtypes by the description of the value
  FormAnswers forms;             // given, or noted
  size_t runs = 0;               // of remove-inplace so far
};

} // namespace pipec
