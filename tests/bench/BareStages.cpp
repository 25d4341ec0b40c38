#include "tests/bench/BareStages.h"

#include "ir/artifact/SerialRunner.h"
#include "ir/artifact/SerialStages.h"
#include "ir/artifact/StageFacts.h"
#include "ir/batch/BatchSplit.h"
#include "llvm/Support/Error.h"

#include <ATen/ops/ones_like.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/jit/serialization/import.h>

#include <deque>

namespace pipec::bench {

namespace ag = torch::autograd;
namespace jit = torch::jit;

BareStage::BareStage(const std::string &path, const StagePlan &plan,
                     std::vector<std::vector<c10::IValue>> inputs)
    : module_(jit::load(path)), code_(module_.get_method("pipec_forward").graph(), "bare"),
      inputs_(std::move(inputs)) {
  for (const StageAttribute &attribute : plan.attributes) {
    const c10::IValue value = attributeAt(module_, attribute.name).value();
    weights_.insert(weights_.end(), attribute.uses, value);
    if (value.isTensor() && value.toTensor().requires_grad())
      trained_.push_back(value.toTensor());
  }
  for (const StageInput &input : plan.inputs)
    isSent_.push_back(input.kind == StageInput::Kind::Channel);
}

jit::Stack BareStage::call(const std::vector<c10::IValue> &inputs) const {
  jit::Stack stack;
  stack.reserve(1 + inputs.size() + weights_.size());
  stack.emplace_back(module_._ivalue());
  stack.insert(stack.end(), inputs.begin(), inputs.end());
  stack.insert(stack.end(), weights_.begin(), weights_.end());
  jit::InterpreterState(code_).run(stack);
  return stack;
}

void BareStage::infer() const {
  for (const std::vector<c10::IValue> &inputs : inputs_)
    call(inputs);
}

/// The graph's ends: results that have one.
ag::edge_list BareStage::forward(size_t microBatch) {
  std::vector<c10::IValue> inputs = inputs_[microBatch];
  for (size_t i = 0; i < inputs.size(); ++i)
    if (isSent_[i] && inputs[i].isTensor() && inputs[i].toTensor().is_floating_point())
      inputs[i] = inputs[i].toTensor().detach().requires_grad_();
  jit::Stack results = call(inputs);
  if (results.front().isTuple()) {
    const c10::IValue all = std::move(results.front());
    results = all.toTupleRef().elements().vec();
  }
  ag::edge_list ends;
  const bool isFirst = seeds_.empty();
  for (const c10::IValue &result : results) {
    if (!result.isTensor() || !result.toTensor().requires_grad())
      continue;
    ends.push_back(ag::impl::gradient_edge(result.toTensor()));
    if (isFirst)
      seeds_.push_back(at::ones_like(result.toTensor()));
  }
  return ends;
}

void BareStage::train(size_t inFlight) {
  for (const at::Tensor &weight : trained_)
    weight.mutable_grad().reset();
  std::deque<ag::edge_list> waiting;
  for (size_t k = 0; k < inputs_.size() || !waiting.empty();) {
    if (k < inputs_.size() && waiting.size() < inFlight) {
      waiting.push_back(forward(k++));
      continue;
    }
    const ag::edge_list ends = std::move(waiting.front());
    waiting.pop_front();
    ag::Engine::get_default_engine().execute(ends, seeds_, /*keep_graph=*/false,
                                             /*create_graph=*/false, /*accumulate_grad=*/true);
  }
}

std::vector<BareStage> bareStages(const Artifact &artifact, const std::vector<c10::IValue> &batch,
                                  int64_t microBatches) {
  llvm::ExitOnError must; // a benchmark that fails says why
  const Plan &plan = artifact.plan;
  SerialStages serial = must(SerialStages::load(artifact.directory, plan));
  SerialRunner runner(plan, std::move(serial).take());
  const BatchParts parts = must(splitBatch(plan.signature, batch, microBatches));
  std::vector<std::vector<std::vector<c10::IValue>>> inputs(plan.stages.size());
  for (const std::vector<c10::IValue> &given : parts.inputs) {
    const SerialRunner::Result result = must(runner.run(given));
    for (size_t s = 0; s < plan.stages.size(); ++s) {
      std::vector<c10::IValue> &ofStage = inputs[s].emplace_back();
      for (const StageInput &input : plan.stages[s].inputs)
        ofStage.push_back(input.kind == StageInput::Kind::UserInput ? given[input.index]
                                                                    : result.sent[input.index]);
    }
  }
  std::vector<BareStage> stages;
  for (size_t s = 0; s < plan.stages.size(); ++s)
    stages.emplace_back(artifact.stagePath(s), plan.stages[s], std::move(inputs[s]));
  return stages;
}

} // namespace pipec::bench
