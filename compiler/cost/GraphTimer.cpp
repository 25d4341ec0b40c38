#include "compiler/cost/GraphTimer.h"

#include "compiler/cost/WeightStorages.h"
#include "ir/InferenceSettings.h"
#include "ir/TorchError.h"
#include "ir/autograd/BackwardErrors.h"
#include "ir/support/Try.h"
#include "ir/torchfile/TorchFile.h"
#include "ir/values/MapTensors.h"

#include <ATen/ops/ones_like.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/runtime/interpreter.h>

#include <chrono>

namespace pipec {

static int64_t nsOf(llvm::function_ref<void()> body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count();
}

struct GraphTimer::Impl {
  Impl(Model &given, Running running)
      : model(given), evaluator(given, /*countsFlops=*/false, nullptr, running) {}

  torch::jit::Code &prepared() {
    if (!code) {
      std::shared_ptr<torch::jit::Graph> quiet = model.graph->copy();
      removePrints(quiet->block());
      code.emplace(quiet, "pipec_model");
    }
    return *code;
  }

  Model &model;
  GraphEvaluator evaluator;
  std::optional<torch::jit::Code> code;
};

GraphTimer::GraphTimer(Model &model, Running running)
    : impl_(std::make_unique<Impl>(model, running)) {}
GraphTimer::~GraphTimer() = default;

bool GraphTimer::runsDistinct() const { return impl_->evaluator.runsDistinct(); }

llvm::Expected<std::vector<int64_t>>
GraphTimer::operators(std::vector<c10::IValue> inputs,
                      llvm::function_ref<void(const OperatorRun &)> observe, bool backward) {
  std::vector<int64_t> times;
  auto note = [&](const OperatorRun &run) {
    times.resize(run.index);
    times.push_back(run.ns);
    if (observe)
      observe(run);
  };
  TRY(impl_->evaluator.run(std::move(inputs), note, backward));
  return times;
}

llvm::Error GraphTimer::prepare() {
  return guardTorchVoid(ExitCode::Usage, "preparing the model", [&] { impl_->prepared(); });
}

llvm::Expected<int64_t> GraphTimer::whole(std::vector<c10::IValue> inputs) {
  InferenceSettings settings(/*intraOpThreads=*/1);
  torch::jit::Stack stack = std::move(inputs);
  for (const Attribute &attribute : impl_->model.attributes)
    stack.push_back(privateCopy(attribute));
  return guardTorch(ExitCode::Usage, "running the model on the example inputs", [&] {
    torch::jit::Code &code = impl_->prepared();
    return nsOf([&] { torch::jit::InterpreterState(code).run(stack); });
  });
}

llvm::Expected<WholePass> GraphTimer::wholeTraining(std::vector<c10::IValue> inputs) {
  InferenceSettings settings(/*intraOpThreads=*/1);
  torch::jit::Stack stack = std::move(inputs);
  for (const Attribute &attribute : impl_->model.attributes)
    stack.push_back(withLeaves(attribute, privateCopy(attribute)));
  auto run = [&] {
    WholePass pass;
    c10::AutoGradMode withGradients(true);
    torch::jit::Code &code = impl_->prepared();
    pass.forwardNs = nsOf([&] { torch::jit::InterpreterState(code).run(stack); });
    std::vector<at::Tensor> roots, gradients;
    for (const c10::IValue &value : stack)
      forEachTensor(value, [&](const at::Tensor &tensor) {
        if (!tensor.defined() || !tensor.requires_grad())
          return;
        roots.push_back(tensor);
        gradients.push_back(at::ones_like(tensor));
      });
    if (!roots.empty())
      pass.backwardNs = nsOf([&] { torch::autograd::backward(roots, gradients); });
    return pass;
  };
  llvm::Expected<WholePass> done =
      guardTorch(ExitCode::Usage, "running the model's backward on the example inputs", run);
  if (!done)
    return explainBackward(done.takeError());
  return done;
}

} // namespace pipec
