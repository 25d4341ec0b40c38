// simplify: runs fold, unroll, lower tuples, share integers, remove writes and dead code repeatedly
// until nothing changes.
#include "passes/Passes.h"

namespace pipec {

/// Folding comes first, so that the other passes see straight code. Dead code comes last, so that
/// unused parts do not keep memory written. functionalise-containers runs only when no other pass
/// can determine the contents of a list or dict any more. A round only simplifies code that the
/// round before exposed, so the number of rounds is the nesting depth of branches and loops; real
/// models need less than ten.
PassInfo simplify() {
  return {.name = "simplify",
          .description =
              "runs fold-constants, lower-tuples, unroll-loops, remove-list-mutation, cse, "
              "remove-inplace and dead-code until none changes the model, then "
              "functionalise-containers, and so on",
          .requires_ = "a flat graph",
          .guarantees = "what these passes guarantee",
          .example = R"(
    %2 : bool = aten::__isnot__(%x, %none)
    %3 : Tensor = prim::If(%2) ...
    =>
    the nodes of the branch that is taken)",
          .make = PassGroup{
              {fixpoint({fixpoint({"fold-constants", "lower-tuples", "unroll-loops",
                                   "remove-list-mutation", "cse", "remove-inplace", "dead-code"}),
                         "functionalise-containers"})}}};
}

} // namespace pipec
