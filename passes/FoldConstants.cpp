// fold-constants: evaluates at compile time: integer arithmetic, tests for None and types, fixed
// lists, branches on known conditions.
#include "passes/Passes.h"
#include "passes/fold/FoldBranches.h"
#include "passes/fold/FoldContainers.h"
#include "passes/fold/FoldControl.h"
#include "passes/fold/FoldOperator.h"
#include "passes/fold/FoldSurroundings.h"
#include "passes/fold/FoldTypes.h"
#include "passes/fold/Folding.h"

namespace pipec {

namespace {

using torch::jit::Node;

class FoldConstants : public ModelPass {
public:
  llvm::Expected<bool> run(Model &model, PassContext &context) override {
    Folding folding(model, context);
    return folding.runToFixpoint([&](Node *node) {
      return foldControl(folding, node) || foldKnownConditions(folding, node) ||
             foldSurroundings(folding, node) || foldTypeTest(folding, node) ||
             foldContainer(folding, node) || foldOperator(folding, node);
    });
  }
};

} // namespace

PassInfo foldConstants() {
  return {.name = "fold-constants",
          .description = "computes integers, booleans, None and type tests, elements of fixed "
                         "lists, and branches that are known at compile time",
          .requires_ = "a flat graph",
          .guarantees =
              "no float was computed; every rank or dtype relied on is in the obligations",
          .example = R"(
    %1 : int = prim::Constant[value=2]()
    %2 : bool = aten::lt(%1, %1)
    %3 : Tensor = prim::If(%2) ...
    =>
    the nodes of the second branch)",
          .make = withoutOptions<FoldConstants>()};
}

} // namespace pipec
