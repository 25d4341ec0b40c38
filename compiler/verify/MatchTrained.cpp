#include "compiler/verify/MatchTrained.h"

#include "ir/artifact/StageFacts.h"
#include "ir/autograd/ModelGradients.h"
#include "ir/support/Try.h"
#include "ir/text/TensorText.h"
#include "llvm/ADT/STLExtras.h"

#include <fmt/ranges.h>

#include <torch/csrc/jit/api/module.h>

#include <set>

namespace pipec {

namespace {

using Names = std::vector<std::string>;

bool haveOneInCommon(const Names &a, const Names &b) {
  return llvm::any_of(a, [&](const std::string &name) { return llvm::is_contained(b, name); });
}

const TrainedParameter *find(const Plan &plan, const Names &names) {
  const auto found = llvm::find_if(plan.training->parameters, [&](const TrainedParameter &each) {
    return haveOneInCommon(each.allNames(), names);
  });
  return found == plan.training->parameters.end() ? nullptr : &*found;
}

/// Whether a stage has it; what no stage has, the plan does not train.
bool isInStages(const Plan &plan, const Names &names) {
  return llvm::any_of(plan.stages, [&](const StagePlan &stage) {
    return llvm::any_of(stage.attributes, [&](const StageAttribute &each) {
      return haveOneInCommon(each.allNames(), names);
    });
  });
}

std::string namesText(Names names) {
  llvm::sort(names);
  return fmt::format("[{}]", fmt::join(names, ", "));
}

std::string tensorText(const std::string &dtype, const std::vector<int64_t> &shape) {
  return fmt::format("{}[{}]", dtype, fmt::join(shape, ", "));
}

Finding findingOn(const std::string &name, const std::string &message) {
  return {"other-plan", name, "trained parameter " + name + ": " + message};
}

} // namespace

llvm::Expected<std::vector<Finding>> compareTrained(const Plan &plan,
                                                    const torch::jit::Module &source) {
  std::vector<Finding> findings;
  std::set<const TrainedParameter *> found; // only looked up
  for (const TrainedTensor &tensor : trainedTensors(source)) {
    const TrainedParameter *said = find(plan, tensor.names);
    if (!said) {
      if (isInStages(plan, tensor.names))
        findings.push_back(
            findingOn(tensor.names.front(), "the source trains it, and the plan does not"));
      continue;
    }
    found.insert(said);
    if (const std::string expected = namesText(tensor.names), got = namesText(said->allNames());
        expected != got)
      findings.push_back(
          findingOn(said->name, "names: expected " + expected + " as the source has, got " + got));
    const std::string dtype = TRY(dtypeText(tensor.tensor.scalar_type()));
    if (const std::string expected = tensorText(dtype, tensor.tensor.sizes().vec()),
        got = tensorText(said->dtype, said->shape);
        expected != got)
      findings.push_back(
          findingOn(said->name, "expected " + expected + " as the source has, got " + got));
  }
  for (const TrainedParameter &said : plan.training->parameters)
    if (!found.count(&said))
      findings.push_back(findingOn(said.name, attributeAt(source, said.name)
                                                  ? "the source's requires no gradient"
                                                  : "the source has none of this name"));
  return findings;
}

} // namespace pipec
