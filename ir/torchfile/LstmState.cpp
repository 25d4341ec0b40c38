#include "ir/torchfile/LstmState.h"

#include <fmt/format.h>

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

#include <optional>

namespace pipec {

namespace jit = torch::jit;

namespace {

/// By the interpreter's format() as by ours.
constexpr char kMessage[] = "LSTM: expected a state of {} samples, got one of {}";

int64_t sampleDimOf(bool batchFirst) { return batchFirst ? 0 : 1; } // of the input
constexpr int64_t kStateSampleDim = 1;

void insertCheck(jit::Node *lstm) {
  const std::optional<c10::IValue> batchFirst = jit::toIValue(lstm->inputs().back());
  if (!batchFirst || !batchFirst->isBool())
    return;
  jit::Graph &graph = *lstm->owningGraph();
  jit::WithInsertPoint before(lstm);
  auto sizeOf = [&](jit::Value *tensor, int64_t dim) {
    return graph.insert(c10::aten::size, {tensor, dim});
  };
  jit::Value *samples = sizeOf(lstm->input(0), sampleDimOf(batchFirst->toBool()));
  jit::Value *states =
      sizeOf(graph.insert(c10::aten::__getitem__, {lstm->input(1), 0}), kStateSampleDim);
  jit::Node *differ = graph.insertNode(
      graph.create(c10::prim::If, {graph.insert(c10::aten::ne, {samples, states})}, 0));
  jit::Block *raises = differ->addBlock();
  differ->addBlock();
  jit::WithInsertPoint inside(raises);
  jit::Value *message = graph.insert(c10::aten::format, {kMessage, samples, states});
  graph.insert(c10::prim::RaiseException, {message, "builtins.RuntimeError"});
  for (jit::Node *node : raises->nodes())
    node->copyMetadata(lstm);
}

} // namespace

void insertLstmStateChecks(jit::Block *block) {
  for (jit::Node *node : block->nodes()) {
    for (jit::Block *inner : node->blocks())
      insertLstmStateChecks(inner);
    if (node->kind() == c10::aten::lstm && node->inputs().size() == 9 &&
        node->input(1)->type()->kind() == c10::TypeKind::ListType)
      insertCheck(node);
  }
}

void checkLstmState(const c10::IValue &input, const c10::IValue &state,
                    const c10::IValue &batchFirst) {
  if (!state.isTensorList() || state.toTensorVector().empty() || !batchFirst.isBool())
    return;
  const int64_t samples = input.toTensor().size(sampleDimOf(batchFirst.toBool())),
                states = state.toTensorVector()[0].size(kStateSampleDim);
  TORCH_CHECK(samples == states, fmt::format(kMessage, samples, states));
}

} // namespace pipec
