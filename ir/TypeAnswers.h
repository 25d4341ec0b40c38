// What simplification takes from the types that an example run shows, as data: with it the same
// source is normalised in the same way once more, without running anything.
#pragma once

#include "ir/plan/Obligation.h"

#include <map>
#include <vector>

namespace pipec {

/// remove-inplace asks of each write that it could remove whether the new value would have the form
/// of the old one. By number of the pass's run and of the question in it, both from 0: the
/// questions that types answer otherwise than operators alone.
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
