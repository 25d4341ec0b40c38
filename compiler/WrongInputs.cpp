#include "compiler/WrongInputs.h"

#include "compiler/Import.h"
#include "ir/batch/TensorSpecs.h"
#include "ir/support/Try.h"
#include "ir/torchfile/TorchFile.h"
#include "ir/values/ArgumentText.h"

#include <ATen/core/Tensor.h>

namespace pipec {

namespace {

bool isFloatingPoint(const c10::IValue &value) {
  return value.isTensor() && value.toTensor().defined() && value.toTensor().is_floating_point();
}

/// The floating-point dtype of all weights; empty: there are none, or several dtypes.
std::string dtypeOfWeights(const Model &model) {
  std::string dtype;
  for (const Attribute &attribute : model.attributes) {
    if (!isFloatingPoint(attribute.value))
      continue;
    const std::string own = dtypeOf(attribute.value.toTensor());
    if (!dtype.empty() && own != dtype)
      return "";
    dtype = own;
  }
  return dtype;
}

} // namespace

llvm::Error tooManyArguments(const Model &model, const Arguments &arguments,
                             const CompileOptions &options) {
  ErrorText text =
      describe(bindArguments(model.signature, argumentTypes(model), arguments).takeError());
  if (arguments.positional.size() == model.signature.inputs.size() + 1 && options.loss.empty())
    text.help = "if the last one is the targets of a loss, pass --train --loss LOSS.pt";
  return makeError(text.code, text.message, text.help);
}

llvm::Error withDtypeHelp(llvm::Error error, const Model &model, const Values &inputs) {
  if (!error)
    return llvm::Error::success();
  ErrorText text = describe(std::move(error));
  const std::string weights = dtypeOfWeights(model);
  for (size_t i = 0; i < inputs.size() && !weights.empty(); ++i) {
    if (!isFloatingPoint(inputs[i]))
      continue;
    const std::string dtype = dtypeOf(inputs[i].toTensor());
    const bool isOfTypes = llvm::StringRef(text.message).contains("type");
    const bool hasHelp = !text.help.empty() && text.help != kRefusedByModel;
    if (dtype != weights && text.code == ExitCode::Usage && isOfTypes && !hasHelp)
      text.help = fmt::format("{} is {}, and the weights are {}: convert one of the two",
                              model.signature.inputs[i].name, dtype, weights);
  }
  return makeError(text.code, text.message, text.help);
}

llvm::Error withTargets(llvm::Error error, const Signature &joined, const std::string &path,
                        const CompileOptions &options) {
  const ErrorText text = describe(std::move(error));
  torch::jit::Module model = TRY(loadMapped(path));
  torch::jit::Method method = TRY(methodOf(model, path, options.method));
  const size_t own = method.function().getSchema().arguments().size() - 1; // without self
  const llvm::ArrayRef<InputSpec> all(joined.inputs);
  return makeError(
      text.code, text.message,
      fmt::format("--inputs takes the arguments of the model ({}) and then the targets "
                  "of the loss ({})",
                  listArguments(all.take_front(own)), listArguments(all.drop_front(own))));
}

} // namespace pipec
