#include "runtime/training/OptimizerState.h"

#include "ir/support/Check.h"
#include "llvm/ADT/STLExtras.h"

#include <torch/optim/adagrad.h>
#include <torch/optim/sgd.h>

namespace pipec {

namespace optim = torch::optim;

namespace {

void addTensor(OptimizerState &state, const char *key, const at::Tensor &tensor) {
  if (tensor.defined())
    state.emplace_back(key, tensor);
}

} // namespace

const c10::IValue &valueOf(const OptimizerState &state, llvm::StringRef key) {
  const auto found = llvm::find_if(state, [&](const auto &entry) { return entry.first == key; });
  TORCH_CHECK(found != state.end(), "expected ", key.str(), " of the optimizer, got none");
  return found->second;
}

at::Tensor tensorOf(const OptimizerState &state, llvm::StringRef key) {
  return state.empty() ? at::Tensor() : valueOf(state, key).toTensor();
}

OptimizerState stateOf(const std::string &name, const optim::OptimizerParamState &state) {
  OptimizerState saved;
  if (name == "sgd") {
    addTensor(saved, "momentum_buffer",
              static_cast<const optim::SGDParamState &>(state).momentum_buffer());
  } else {
    PIPEC_ASSERT(name == "adagrad", "an optimizer of the table");
    const auto &own = static_cast<const optim::AdagradParamState &>(state);
    saved.emplace_back("step", own.step());
    addTensor(saved, "sum", own.sum());
  }
  return saved;
}

std::unique_ptr<optim::OptimizerParamState> paramStateOf(const std::string &name,
                                                         const OptimizerState &state) {
  if (name == "sgd") {
    auto own = std::make_unique<optim::SGDParamState>();
    own->momentum_buffer(valueOf(state, "momentum_buffer").toTensor());
    return own;
  }
  PIPEC_ASSERT(name == "adagrad", "an optimizer of the table");
  auto own = std::make_unique<optim::AdagradParamState>();
  own->step(valueOf(state, "step").toInt());
  own->sum(valueOf(state, "sum").toTensor());
  return own;
}

c10::IValue dictOf(const OptimizerState &state) {
  c10::impl::GenericDict dict(c10::StringType::get(), c10::AnyType::get());
  for (const auto &[key, value] : state)
    dict.insert(key, value.isTensor() && value.toTensor().defined()
                         ? c10::IValue(value.toTensor().cpu())
                         : value);
  return dict;
}

} // namespace pipec
