#include "ir/autograd/BackwardErrors.h"

#include "ir/NodeInfo.h"
#include "ir/Refusals.h"
#include "ir/values/ArgumentText.h"
#include "ir/values/MapTensors.h"
#include "llvm/ADT/StringExtras.h"

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>

#include <set>

namespace pipec {

namespace {

constexpr llvm::StringLiteral kWrittenOver = "has been modified by an inplace operation",
                              kAgain = "backward through the graph a second time";

/// The node that made the value, in
///   [CPUFloatType [6, 4]], which is output 0 of TanhBackward0, is at version 1; expected ...
llvm::StringRef nodeIn(llvm::StringRef message) {
  return message.split("which is output ").second.split(" of ").second.split(',').first;
}

/// "nativebatchnorm" for native_batch_norm, its form in place, and NativeBatchNorm.
std::string withoutCase(llvm::StringRef name) {
  std::string plain;
  for (const char c : name)
    if (c != '_')
      plain += llvm::toLower(c);
  return plain;
}

/// "aten::tanh at net.py:8"; empty if the model has no operator of this name, or in several places.
std::string onlyPlaceOf(llvm::StringRef name, const torch::jit::Module &model) {
  const std::string wanted = withoutCase(name);
  std::set<std::string> places;
  anyNodeInside(model, [&](torch::jit::Node *node) {
    if (node->kind().is_aten() && withoutCase(node->kind().toUnqualString()) == wanted)
      places.insert(sourceLineOf(node).empty() ? "" : describeNode(node));
    return false;
  });
  return places.size() == 1 ? *places.begin() : "";
}

/// The first attribute whose value has a graph; empty: there is none.
std::string stateWithGraph(const torch::jit::Module &model) {
  for (const auto &[name, value] : model.named_attributes(/*recurse=*/true))
    if (!value.isModule() && hasGraph(value))
      return name;
  return "";
}

} // namespace

/// The messages are
///   slice_scatter does not support automatic differentiation for outputs with complex dtype.
///   derivative for aten::copy is not implemented
///   the derivative for 'target' is not implemented
std::string operatorWithoutDerivative(llvm::StringRef message) {
  constexpr llvm::StringLiteral kOfDtype = " does not support automatic differentiation";
  constexpr llvm::StringLiteral kBefore = "derivative for ", kAfter = " is not implemented";
  llvm::StringRef name;
  if (size_t end = message.find(kOfDtype); end != llvm::StringRef::npos) {
    name = message.take_front(end);
    name = name.drop_front(name.find_last_of(" \n") + 1);
  } else if (size_t start = message.find(kBefore); start != llvm::StringRef::npos) {
    name = message.drop_front(start + kBefore.size());
    name = name.take_front(name.find(kAfter)).trim('\'');
  }
  return name.drop_front(name.rfind(':') + 1).str();
}

llvm::Error explainBackward(llvm::Error error, const torch::jit::Module *model) {
  if (!error)
    return error;
  ErrorText text = describe(std::move(error));
  if (model && llvm::StringRef(text.message).contains(kAgain))
    if (const std::string state = stateWithGraph(*model); !state.empty())
      return refuseWith(Refusal::StateWithGradient, state);
  auto placeOf = [&](llvm::StringRef name) {
    return model && !name.empty() ? onlyPlaceOf(name, *model) : std::string();
  };
  if (const std::string name = operatorWithoutDerivative(text.message); !name.empty()) {
    if (const std::string place = placeOf(name); !place.empty())
      text.message += fmt::format(" ({})", place);
    text.help = "the loss depends on what this operator makes: use operators that have a "
                "derivative, or give it x.detach() where no gradient is needed";
  } else if (llvm::StringRef(text.message).contains(kWrittenOver)) {
    text.message = llvm::StringRef(text.message).split(" Hint: ").first.rtrim('.').str();
    const std::string node = nodeIn(text.message).str();
    if (const auto [maker, number] = llvm::StringRef(node).split("Backward"); !number.empty())
      if (const std::string place = placeOf(maker); !place.empty())
        text.message += fmt::format(" ({} is that of {})", node, place);
    text.help = fmt::format(
        "the model writes over a value that the gradient of an earlier operator needs: {}",
        kWriteElsewhere);
  }
  return makeError(text.code, text.message, text.help);
}

} // namespace pipec
