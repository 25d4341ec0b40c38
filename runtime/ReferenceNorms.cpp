#include "runtime/ReferenceNorms.h"

#include "ir/NodeInfo.h"

#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/ir.h>

#include <set>

namespace pipec {

namespace jit = torch::jit;

namespace {

/// The code that a node calls; null: only a run shows it, as the class behind an interface.
jit::Function *calleeOf(const jit::Node *call) {
  const c10::TypePtr &type = call->input(0)->type();
  if (call->kind() == c10::prim::CallFunction) {
    const auto function = type->cast<c10::FunctionType>();
    return function ? function->function() : nullptr;
  }
  const auto object = type->cast<c10::ClassType>();
  return object ? object->findMethod(call->s(c10::attr::name)) : nullptr;
}

/// `seen`: functions that were asked before; only looked up.
bool mayRunNorm(jit::Function &function, std::set<const jit::Function *> &seen) {
  auto *code = jit::tryToGraphFunction(function);
  if (!code || !seen.insert(&function).second)
    return false;
  return anyNodeInside(code->graph()->block(), [&](jit::Node *node) {
    if (node->kind() != c10::prim::CallFunction && node->kind() != c10::prim::CallMethod)
      return node->kind() == c10::aten::batch_norm;
    jit::Function *callee = calleeOf(node);
    return !callee || mayRunNorm(*callee, seen);
  });
}

} // namespace

bool ReferenceNorms::defer(const jit::Module &module, const std::string &method) {
  isOn_ = true;
  std::set<const jit::Function *> seen;
  const bool runsNorm = mayRunNorm(module.get_method(method).function(), seen);
  size_t count = 0;
  for (jit::Function *function : module._ivalue()->compilation_unit()->get_functions())
    if (auto *graphFunction = jit::tryToGraphFunction(*function))
      count += deferBatchNorms(*graphFunction->graph()->block());
  return runsNorm && count > 0;
}

void ReferenceNorms::beginStep() {
  calls_.clear();
  counted_.clear();
}

void ReferenceNorms::beginMicroBatch(const jit::Module &module) {
  if (!isOn_)
    return;
  c10::AutoGradMode noGrad(false);
  const bool isFirst = counted_.empty();
  for (const auto &[name, value] : module.named_buffers(/*recurse=*/true))
    if (countsBatches(name) && value.defined()) {
      if (isFirst)
        counted_[name] = value.clone();
      else
        at::Tensor(value).copy_(counted_[name]);
    }
}

void ReferenceNorms::note(std::vector<NormCall> calls) {
  if (isOn_)
    calls_.insert(calls_.end(), calls.begin(), calls.end());
}

void ReferenceNorms::endStep() {
  std::vector<std::vector<NormCall>> byNorm;
  std::map<const void *, size_t> numbers; // only looked up
  for (NormCall &call : calls_) {
    const auto [known, isNew] =
        numbers.emplace(call.runningMean.unsafeGetTensorImpl(), byNorm.size());
    if (isNew)
      byNorm.emplace_back();
    byNorm[known->second].push_back(call);
  }
  for (const std::vector<NormCall> &calls : byNorm)
    updateStatistics(calls.front().runningMean, calls.front().runningVar, calls);
  calls_.clear();
}

} // namespace pipec
