#include "ir/graph/LstmState.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/library.h>

#include <mutex>

namespace pipec {

namespace jit = torch::jit;

/// The check is an operator, so that LibTorch's interpreter and pipec's own run of a graph call the
/// same function.
static c10::Symbol checkSymbol() {
  static std::once_flag once;
  std::call_once(once, [] {
    // Never destroyed: other static destructors may still use the dispatcher.
    static auto *library =
        new torch::Library(torch::Library::FRAGMENT, "pipec", std::nullopt, __FILE__, __LINE__);
    library->def(torch::schema("pipec::check_lstm_state(Tensor input, Tensor[] state, "
                               "bool batch_first) -> ()",
                               c10::AliasAnalysisKind::CONSERVATIVE), // it may throw
                 [](const at::Tensor &input, at::TensorList state, bool batchFirst) {
                   checkLstmState(input, state, batchFirst);
                 });
  });
  return c10::Symbol::fromQualString("pipec::check_lstm_state");
}

void insertLstmStateChecks(jit::Block *block) {
  for (jit::Node *node : block->nodes()) {
    for (jit::Block *inner : node->blocks())
      insertLstmStateChecks(inner);
    if (node->kind() != c10::aten::lstm || node->inputs().size() != 9 ||
        node->input(1)->type()->kind() != c10::TypeKind::ListType)
      continue;
    jit::WithInsertPoint before(node);
    node->owningGraph()
        ->insertNode(node->owningGraph()->create(
            checkSymbol(), {node->input(0), node->input(1), node->inputs().back()}, 0))
        ->copyMetadata(node);
  }
}

void checkLstmState(const at::Tensor &input, at::TensorList state, bool batchFirst) {
  if (state.empty())
    return;
  constexpr int64_t kStateSampleDim = 1;
  const int64_t samples = input.size(batchFirst ? 0 : 1), states = state[0].size(kStateSampleDim);
  TORCH_CHECK(samples == states, "LSTM: expected a state of ", samples, " samples, got one of ",
              states);
}

} // namespace pipec
