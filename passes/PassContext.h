// Messages of passes to later steps. They are no part of what the model computes.
#pragma once

#include "ir/NodeCost.h"
#include "ir/TypeAnswers.h"

#include <memory>
#include <string>
#include <vector>

namespace pipec {

class AliasAnalysis;

/// One per model, from its import to the report. Only `costs` has a text form.
struct PassContext {
  /// The path of each module call in program order, as modulePathOf has it: `inline` fills it.
  std::vector<std::string> moduleCalls;
  /// Per top-level operator (constants and boundaries left out); empty: not measured.
  std::vector<NodeCost> costs;
  /// Per boundary of the top level, what asked for a cut there, as "--at encoder.layers.6"; empty:
  /// no option named it.
  std::vector<std::string> askedBy;
  bool cutsByCost = false; // the boundaries of the top level are where costs put them
  std::vector<std::string> notes, warnings; // sentences for the report
  TypeAnswers answers;                      // of the types of an example run
  bool trains = false;                      // the stages compute gradients, too
  /// While a manager runs: its analysis of the model as it is now; empty: nothing has asked for it
  /// (aliasesOf in passes/analysis/AliasAnalysis.h).
  std::shared_ptr<const AliasAnalysis> *aliases = nullptr;
};

} // namespace pipec
