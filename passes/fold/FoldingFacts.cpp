// Ranks and dtypes that folds rest on: from types, which are noted, or from the notes.
#include "ir/NodeInfo.h"
#include "ir/text/TensorText.h"
#include "passes/fold/Folding.h"

#include <fmt/format.h>

namespace pipec {

namespace {

using torch::jit::Node;
using torch::jit::Value;

/// The answer if types leave the question open, although types answered it in another copy or in an
/// earlier round of type inference.
constexpr llvm::StringLiteral kNotKnown = "?";

std::optional<int64_t> rankFrom(const std::optional<std::string> &text) {
  int64_t rank = 0;
  return text && !llvm::StringRef(*text).getAsInteger(10, rank) ? std::optional(rank)
                                                                : std::nullopt;
}

std::optional<c10::ScalarType> dtypeFrom(const std::optional<std::string> &text) {
  return text ? dtypeFromText(*text) : std::nullopt;
}

/// An argument or attribute of the model.
std::optional<std::string> describeInput(const Model &model, const Value *value) {
  const Node *node = value->node();
  if (node->kind() != c10::prim::Param || node->owningBlock() != model.graph->block())
    return std::nullopt;
  const size_t index = value->offset(), arguments = model.argumentCount();
  return index < arguments ? "input " + model.signature.inputs[index].name
                           : "attribute " + model.attributes[index - arguments].name;
}

/// The name of the value in an obligation: no source line, no number of LibTorch's. It may
/// stand for several values.
std::string describeValue(const Model &model, const Value *value) {
  if (std::optional<std::string> input = describeInput(model, value))
    return *input;
  auto *node = const_cast<Node *>(value->node());
  const std::string path = modulePathOf(node);
  return fmt::format("result {} of {}{}", value->offset(), node->kind().toQualString(),
                     path.empty() ? "" : " in " + path);
}

} // namespace

TypeQuestion Folding::question(const Value *value, const std::string &property) const {
  if (std::optional<std::string> input = describeInput(model_, value))
    return {*input, 0, property};
  return names_.question(value, property);
}

std::optional<std::string> Folding::given(const Value *value, const std::string &property) const {
  if (!answers_.decisions.empty())
    return given(question(value, property));
  // Before format 1.2: one fact for all of a description.
  const std::string of = describeValue(model_, value);
  auto found = llvm::find_if(answers_.facts, [&](const Obligation &fact) {
    return fact.of == of && fact.property == property;
  });
  return found == answers_.facts.end() ? std::nullopt : std::optional(found->value);
}

std::optional<std::string> Folding::given(const TypeQuestion &question) const {
  const std::string *noted = answers_.given ? answers_.find(question) : nullptr;
  return noted && *noted != kNotKnown ? std::optional(*noted) : std::nullopt;
}

void Folding::noteOther(const TypeQuestion &question, const std::string &seen) const {
  if (const std::string *noted = answers_.find(question); noted && *noted != seen)
    answers_.decisions[question].try_emplace(answers_.round,
                                             seen); // an answer that a rewrite used stays
}

std::optional<int64_t> Folding::rankOf(const Value *tensor) const {
  auto type = tensor->type()->cast<c10::TensorType>();
  if (!type)
    return std::nullopt;
  if (answers_.given)
    return rankFrom(given(tensor, "rank"));
  const std::optional<size_t> rank = type->dim();
  noteOther(question(tensor, "rank"), rank ? std::to_string(*rank) : kNotKnown.str());
  return rank ? std::optional<int64_t>(*rank) : std::nullopt;
}

std::optional<c10::ScalarType> Folding::dtypeOf(const Value *tensor) const {
  auto type = tensor->type()->cast<c10::TensorType>();
  if (!type)
    return std::nullopt;
  if (answers_.given)
    return dtypeFrom(given(tensor, "dtype"));
  const std::optional<c10::ScalarType> dtype = type->scalarType();
  noteOther(question(tensor, "dtype"), dtype ? c10::getDtypeNames(*dtype).first : kNotKnown.str());
  return dtype;
}

std::optional<int64_t> Folding::givenRank(Node *asker) const {
  return rankFrom(given(names_.question(asker, "rank")));
}

std::optional<c10::ScalarType> Folding::givenDtype(Node *asker) const {
  return dtypeFrom(given(names_.question(asker, "dtype")));
}

void Folding::noteAnswer(Node *asker, const std::string &property,
                         const std::optional<std::string> &answer) {
  if (answers_.given)
    return;
  const TypeQuestion asked = names_.question(asker, property);
  if (answer)
    answers_.note(asked, *answer);
  else
    noteOther(asked, kNotKnown.str());
}

void Folding::relyOn(const Value *value, const std::string &property, const std::string &is) {
  if (!answers_.given)
    answers_.note(question(value, property), is);
  Obligation fact = Obligation::fact(describeValue(model_, value), property, is);
  if (facts_.insert(toString(fact)).second)
    model_.obligations.push_back(std::move(fact));
}

} // namespace pipec
