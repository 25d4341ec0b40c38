// simplify: fold, unroll, lower tuples, share integers, remove writes and dead code, again and
// again until nothing changes.
#include "passes/Simplify.h"

#include "ir/support/Error.h"
#include "passes/Passes.h"
#include "passes/Pipeline.h"

namespace pipec {

namespace {

/// Each round can open only what the round before it uncovered, as deep as branches and loops are
/// nested; real models take below ten.
constexpr int kMostRounds = 100;

/// Folding first makes the others see straight code; dead code last, so that unused parts do not
/// keep memory written.
std::vector<PassInfo> simplifyingPasses() {
  return {foldConstants(),       lowerTuples(),   unrollLoops(), removeListMutation(),
          commonSubexpression(), removeInplace(), deadCode()};
}

llvm::Expected<bool> runOnce(Model &model, const PassInfo &info) {
  using Make = std::function<llvm::Expected<std::unique_ptr<ModelPass>>(const PassOptions &)>;
  llvm::Expected<std::unique_ptr<ModelPass>> pass = std::get<Make>(info.make)({});
  if (!pass)
    return pass.takeError();
  return (*pass)->run(model);
}

class Simplify : public ModelPass {
public:
  llvm::Expected<bool> run(Model &model) override { return simplifyToFixpoint(model); }
};

} // namespace

/// The simplifying passes, and functionalise-containers at rest: only when nothing else can tell
/// any more what is in a list or dict.
llvm::Expected<bool> simplifyToFixpoint(Model &model) {
  const std::vector<PassInfo> passes = simplifyingPasses();
  const PassInfo atRest = functionaliseContainers();
  bool any = false;
  for (int round = 0; round < kMostRounds; ++round) {
    bool changed = false;
    for (const PassInfo &info : passes) {
      llvm::Expected<bool> one = runOnce(model, info);
      if (!one)
        return one.takeError();
      changed |= *one;
    }
    if (!changed) {
      llvm::Expected<bool> last = runOnce(model, atRest);
      if (!last || !*last)
        return last ? llvm::Expected<bool>(any) : last.takeError();
    }
    any = true;
  }
  return failf(ExitCode::Internal,
               "simplify: expected the passes to converge within {} rounds, got further changes",
               kMostRounds);
}

std::string withSimplifyOpened(llvm::StringRef pipeline) {
  PipelineStep inner, group;
  inner.name = group.name = "fixpoint";
  for (const PassInfo &info : simplifyingPasses())
    inner.body.push_back({info.name.str(), {}, {}});
  group.body = {inner, {functionaliseContainers().name.str(), {}, {}}};
  std::vector<PipelineStep> steps = llvm::cantFail(parsePipeline(pipeline));
  for (PipelineStep &step : steps)
    if (step.name == "simplify")
      step = group;
  return pipelineText(steps);
}

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
          .make = withoutOptions<Simplify>()};
}

} // namespace pipec
