#include "compiler/ExampleTypes.h"

#include "compiler/DecidedTypes.h"
#include "compiler/cost/GraphEvaluator.h"
#include "ir/NodeInfo.h"
#include "ir/Refusals.h"
#include "ir/support/Try.h"

#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

namespace {

using torch::jit::Block;
using torch::jit::Node;
using torch::jit::Value;

bool isNested(const c10::IValue &content) {
  return content.isTensor() && content.toTensor().defined() && content.toTensor().is_nested();
}

/// A nested tensor has no sizes that a type could hold.
void annotate(Value *value, const c10::IValue &content) {
  if (value->type()->kind() != c10::TypeKind::TensorType || !content.isTensor() ||
      !content.toTensor().defined() || isNested(content))
    return;
  // A gradient flag belongs to a run, not to the model.
  value->setType(c10::TensorType::create(content.toTensor())->withRequiresGrad(std::nullopt));
}

void eraseFrom(at::ArrayRef<Value *> values) {
  for (Value *value : values)
    if (value->type()->kind() == c10::TypeKind::TensorType)
      value->setType(c10::TensorType::get());
}

void eraseFrom(Block &block) {
  eraseFrom(block.inputs());
  for (Node *node : block.nodes()) {
    if (node->kind() != c10::prim::Constant)
      eraseFrom(node->outputs());
    for (Block *inner : node->blocks())
      eraseFrom(*inner);
  }
}

} // namespace

llvm::Error inferTypes(Model &model, std::vector<c10::IValue> inputs, Running running) {
  DecidedTypes decided(model);
  auto annotateInput = [&](size_t index, const c10::IValue &content) {
    if (decided.holds(model.graph->inputs()[index]))
      annotate(model.graph->inputs()[index], content);
  };
  for (size_t i = 0; i < inputs.size(); ++i)
    annotateInput(i, inputs[i]);
  for (size_t i = 0; i < model.attributes.size(); ++i)
    annotateInput(model.argumentCount() + i, model.attributes[i].value);
  std::string nested; // the operator whose result is a nested tensor
  auto observe = [&](const OperatorRun &run) {
    for (size_t i = 0; i < run.outputs.size(); ++i) {
      if (isNested(run.outputs[i]) &&
          llvm::is_contained(model.graph->outputs(), run.node->output(i)))
        nested = describeNode(run.node);
      if (decided.holds(run.node->output(i)))
        annotate(run.node->output(i), run.outputs[i]);
    }
  };
  GraphEvaluator evaluator(model, /*countsFlops=*/true, &decided, running);
  TRY(evaluator.run(std::move(inputs), observe));
  if (!nested.empty())
    return refuseWith(Refusal::ResultWithoutForm, nested, "a nested tensor",
                      "one that has no sizes");
  return llvm::Error::success();
}

void eraseTypes(Model &model) { eraseFrom(*model.graph->block()); }

} // namespace pipec
