#include "passes/Fingerprint.h"

#include "ir/TensorBytes.h"
#include "ir/text/ContentText.h"

namespace pipec {
namespace {

/// The parts of an attribute that its text leaves out.
std::string contentOf(const Attribute &attribute) {
  std::string text = attribute.name;
  c10::IValue::HashIdentityIValueMap unused;
  attribute.value.visit([&](const c10::IValue &inner) {
    if (inner.isTensor() && inner.toTensor().defined())
      text += fmt::format(" {:x}{}", tensorHash(inner.toTensor()),
                          inner.toTensor().requires_grad() ? "g" : "");
    return false;
  });
  return text + "\n";
}

template <typename Kind> std::string beyondText(const Kind &model) {
  std::string text;
  for (const Attribute &attribute : model.attributes)
    text += contentOf(attribute);
  return text;
}

/// Costs are in the text; no pass sets whether a compile trains.
std::string contentOf(const PassContext &context) {
  std::string text;
  const std::vector<std::string> decisions = printDecisions(context.answers.decisions);
  for (const std::vector<std::string> *list :
       {&context.notes, &context.warnings, &context.moduleCalls, &context.askedBy, &decisions}) {
    for (const std::string &line : *list)
      text += line + "\n";
    text += "-\n";
  }
  for (const Obligation &fact : context.answers.facts)
    text += toString(fact) + "\n";
  return text;
}

} // namespace

std::string fingerprint(const AnyModel &model, const PassContext &context) {
  TextOptions options;
  options.costs = &context.costs;
  options.data = TextOptions::Data::None;
  options.digests = false;
  options.scopes = true;
  llvm::Expected<std::string> text = toText(model, options);
  std::string all = text ? *text : equalToNothing("a model without a text");
  if (!text)
    llvm::consumeError(text.takeError());
  all += std::visit([](const auto &kind) { return beyondText(kind); }, model);
  return all + contentOf(context);
}

} // namespace pipec
