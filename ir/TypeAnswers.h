// The facts that simplification takes from the types of an example run, as data. With it the same
// source can be normalised in the same way again, without running anything.
#pragma once

#include "ir/plan/Obligation.h"

#include <map>
#include <vector>

namespace pipec {

/// A question about types: a property of a value, or of the tensor that an operator writes or
/// views. The name tells an operator by its place in the source (ir/NodeOrigin.h), so that neither
/// other decisions nor the order of passes change it.
struct TypeQuestion {
  std::string of;  // "aten::add_ #2 in encoder.layers.3", "result 0 of aten::view #1", "input x"
  size_t copy = 0; // passes make several operators of one: 0 is the first in program order
  std::string property; // "contiguous", "rank"

  auto operator<=>(const TypeQuestion &) const = default;
};

/// By question, the answers that only types give: each holds from its round of type inference on.
/// Round 0 is before the first one.
using TypeDecisions = std::map<TypeQuestion, std::map<size_t, std::string>>;

/// One text per answer: "aten::add_ #2 in encoder.layers.3: contiguous = yes, from round 1".
std::vector<std::string> printDecisions(const TypeDecisions &decisions);
/// Errors: BadArtifact quoting the text.
llvm::Expected<TypeDecisions> parseDecisions(const std::vector<std::string> &texts);

/// Travels with a model through its simplification.
struct TypeAnswers {
  bool given = false;            // ask here and not the types
  std::vector<Obligation> facts; // given: ranks and dtypes by the description of the value
  TypeDecisions decisions;       // given, or noted
  size_t round = 0;              // of type inference, from 1

  /// The answer that holds in this round; a copy of an unrolled loop without an answer has that of
  /// the first copy. Null: none.
  const std::string *find(const TypeQuestion &question) const;
  /// Records an answer that holds from this round on, unless the same holds already. The last
  /// answer of a round counts.
  void note(const TypeQuestion &question, const std::string &answer);
};

} // namespace pipec
