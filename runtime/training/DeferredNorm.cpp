#include "runtime/training/DeferredNorm.h"

#include "ir/support/Llvm.h"
#include "runtime/training/MultiplyBy.h"

#include <fmt/format.h>

#include <ATen/ops/batch_norm.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/runtime/custom_operator.h>

#include <utility>

namespace pipec {

namespace jit = torch::jit;

/// The target of the operator on this thread.
struct NormCallsOfThread {
  static thread_local NormCalls *current;
  static void note(NormCall call) { current->calls_.push_back(std::move(call)); }
};
thread_local NormCalls *NormCallsOfThread::current = nullptr;

NormCalls::NormCalls(std::vector<NormCall> memory)
    : calls_(std::move(memory)), outer_(std::exchange(NormCallsOfThread::current, this)) {}
NormCalls::~NormCalls() { NormCallsOfThread::current = outer_; }
std::vector<NormCall> NormCalls::take() { return std::exchange(calls_, {}); }

namespace {

constexpr const char *kName = "pipec::deferred_batch_norm";

std::optional<at::Tensor> tensorOrNone(const c10::IValue &value) {
  return value.isTensor() && value.toTensor().defined() ? std::optional(value.toTensor())
                                                        : std::nullopt;
}

void runNorm(jit::Stack &stack) {
  const at::Tensor input = jit::peek(stack, 0, 9).toTensor();
  const std::optional<at::Tensor> weight = tensorOrNone(jit::peek(stack, 1, 9));
  const std::optional<at::Tensor> bias = tensorOrNone(jit::peek(stack, 2, 9));
  const std::optional<at::Tensor> mean = tensorOrNone(jit::peek(stack, 3, 9));
  const std::optional<at::Tensor> var = tensorOrNone(jit::peek(stack, 4, 9));
  const bool training = jit::peek(stack, 5, 9).toBool();
  const double momentum = jit::peek(stack, 6, 9).toDouble(),
               eps = jit::peek(stack, 7, 9).toDouble();
  const bool cudnn = jit::peek(stack, 8, 9).toBool();
  jit::drop(stack, 9);
  if (!training || !mean || !var || !NormCallsOfThread::current) {
    jit::push(stack,
              at::batch_norm(input, weight, bias, mean, var, training, momentum, eps, cudnn));
    return;
  }
  NormCall call{*mean, *var, {}, {}, input.numel() / std::max<int64_t>(mean->numel(), 1), momentum};
  {
    c10::AutoGradMode noGrad(false);
    call.mean = at::zeros_like(*mean);
    call.var = at::zeros_like(*var);
  }
  // A momentum of 1 makes the statistics of this call the running ones.
  jit::push(stack, at::batch_norm(input, weight, bias, call.mean, call.var, true, 1.0, eps, cudnn));
  NormCallsOfThread::note(std::move(call));
}

/// The linker would drop an object that only registers something.
void registerOperator() {
  static const jit::RegisterOperators registered({jit::Operator(
      fmt::format("{}(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? "
                  "running_var, bool training, float momentum, float eps, bool cudnn_enabled) -> "
                  "Tensor",
                  kName),
      [](jit::Stack &stack) { runNorm(stack); }, c10::AliasAnalysisKind::CONSERVATIVE)});
}

} // namespace

size_t deferBatchNorms(jit::Block &block) {
  registerOperator();
  size_t count = 0;
  for (auto it = block.nodes().begin(); it != block.nodes().end();) {
    jit::Node *node = *it++;
    for (jit::Block *inner : node->blocks())
      count += deferBatchNorms(*inner);
    if (node->kind() != c10::Symbol::fromQualString("aten::batch_norm"))
      continue;
    jit::Node *deferred =
        node->owningGraph()->create(c10::Symbol::fromQualString(kName), node->inputs(), 1);
    deferred->insertBefore(node);
    deferred->copyMetadata(node);
    deferred->output()->setType(node->output()->type());
    node->output()->replaceAllUsesWith(deferred->output());
    node->destroy();
    ++count;
  }
  return count;
}

void updateStatistics(at::Tensor runningMean, at::Tensor runningVar,
                      const std::vector<NormCall> &calls) {
  c10::AutoGradMode noGrad(false);
  const double momentum = calls.back().momentum;
  double count = 0;
  at::Tensor mean = at::zeros_like(runningMean, at::kDouble), squares = at::zeros_like(mean);
  for (const NormCall &call : calls) {
    count += static_cast<double>(call.count);
    mean.add_(call.mean.to(at::kDouble), static_cast<double>(call.count));
  }
  mean.div_(count);
  // The sum of squared deviations from the common mean. Each call adds the squared deviations from
  // its own mean, and the squared distance of the two means once per element.
  for (const NormCall &call : calls) {
    const auto own = static_cast<double>(call.count);
    if (call.count > 1) // one element has no variance
      squares.add_(call.var.to(at::kDouble), own - 1);
    squares.add_(call.mean.to(at::kDouble).sub_(mean).square_(), own);
  }
  squares.div_(std::max(count - 1, 1.0));
  multiplyBy(runningMean, 1 - momentum).add_(mean.to(runningMean.scalar_type()), momentum);
  multiplyBy(runningVar, 1 - momentum).add_(squares.to(runningVar.scalar_type()), momentum);
}

llvm::Error noBatchNorm() {
  return makeError(ExitCode::Usage,
                   "--batch-norm deferred: expected a model with batch norm, got one without",
                   "leave --batch-norm out");
}

bool countsBatches(const std::string &name) {
  return name == "num_batches_tracked" || endsWith(name, ".num_batches_tracked");
}

} // namespace pipec
