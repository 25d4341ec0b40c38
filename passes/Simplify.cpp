// simplify: fold, unroll, lower tuples, share integers, remove writes and dead code, again and
// again until nothing changes.
#include "passes/Passes.h"

namespace pipec {

/// Folding first makes the others see straight code; dead code last, so that unused parts do not
/// keep memory written. functionalise-containers only when nothing else can tell any more what is
/// in a list or dict. Each round can open only what the round before it uncovered, as deep as
/// branches and loops are nested; real models take below ten.
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
          .options = "",
          .make = PassGroup{"fixpoint(fixpoint(fold-constants,lower-tuples,unroll-loops,"
                            "remove-list-mutation,cse,remove-inplace,dead-code),"
                            "functionalise-containers)"}};
}

} // namespace pipec
