// What a reference gives by the model's names: gradients, weights and state, the optimizer's state.
#include "ir/TorchError.h"
#include "ir/autograd/GradSum.h"
#include "ir/support/Try.h"
#include "llvm/ADT/STLExtras.h"
#include "runtime/ReferenceTraining.h"
#include "runtime/WrittenState.h"
#include "runtime/training/OptimizerState.h"

#include <set>

namespace pipec {

ValueTree Reference::gradients() const {
  c10::impl::GenericDict dict(c10::StringType::get(), c10::TensorType::get());
  if (!impl_->training)
    return ValueTree::of(dict);
  const ReferenceTraining &training = *impl_->training;
  const std::vector<at::Tensor> &gradients =
      training.kept.empty() ? training.gradients : training.kept;
  for (size_t i = 0; i < gradients.size(); ++i)
    if (gradients[i].defined())
      dict.insert(training.tensors[i].names.front(), denseGradient(gradients[i]).cpu());
  return ValueTree::of(dict);
}

ValueTree Reference::optimizerState() const {
  c10::impl::GenericDict dict(c10::StringType::get(), c10::AnyType::get());
  if (impl_->training && impl_->training->optimizer)
    for (size_t i = 0; i < impl_->training->tensors.size(); ++i)
      if (const OptimizerState state = impl_->training->optimizer->state(i); !state.empty())
        dict.insert(impl_->training->tensors[i].names.front(), dictOf(state));
  return ValueTree::of(dict);
}

ValueTree Reference::state() const {
  c10::impl::GenericDict dict(c10::StringType::get(), c10::TensorType::get());
  for (const auto &[name, value] : impl_->module->named_parameters(/*recurse=*/true))
    dict.insert(name, value.detach().cpu());
  for (const auto &[name, value] : impl_->module->named_buffers(/*recurse=*/true))
    if (value.defined())
      dict.insert(name, value.detach().cpu());
  return ValueTree::of(dict);
}

llvm::Expected<std::vector<std::string>> Reference::unsavedState() const {
  const jit::Module before = TRY(impl_->freshModule());
  return guardTorch(ExitCode::Other, impl_->path + ": reading the model's state", [&] {
    std::set<std::string> saved; // as buffers, or as a list of parameters, as of an LSTM
    for (const auto &[name, value] : impl_->module->named_buffers(/*recurse=*/true))
      saved.insert(name);
    std::set<const void *> parameters; // only looked up
    for (const auto &[name, value] : impl_->module->named_parameters(/*recurse=*/true))
      parameters.insert(value.unsafeGetTensorImpl());
    const auto isParameter = [&](const at::Tensor &tensor) {
      return parameters.count(tensor.unsafeGetTensorImpl()) != 0;
    };
    for (const auto &[name, value] : impl_->module->named_attributes(/*recurse=*/true))
      if (value.isTensorList() && !value.toTensorVector().empty() &&
          llvm::all_of(value.toTensorVector(), isParameter))
        saved.insert(name);
    std::vector<std::string> names =
        changedState(stateOf(before, /*withParameters=*/false), stateOf(*impl_->module, false));
    llvm::erase_if(names, [&](const std::string &name) { return saved.count(name) != 0; });
    return names;
  });
}

} // namespace pipec
