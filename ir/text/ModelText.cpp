#include "ir/text/ModelText.h"

#include "ir/support/Try.h"
#include "ir/text/GraphText.h"
#include "ir/text/PlanText.h"
#include "llvm/Support/raw_ostream.h"

namespace pipec {
namespace {

/// The parts that a model and a staged model have in common.
template <typename AnyKind>
llvm::Error printCommon(const AnyKind &model, llvm::raw_ostream &os, const TextOptions &options) {
  const Signature &signature = model.signature;
  os << " method=" << quotedWord(signature.method)
     << " mode=" << (model.mode == Mode::Train ? "train" : "infer") << " {\n";
  if (!model.sourceDigest.empty())
    os << "  source " << quotedWord(model.sourceDigest) << "\n";
  if (const std::string batch = batchText(signature); !batch.empty())
    os << "  " << batch << "\n";
  for (const InputSpec &input : signature.inputs)
    os << "  " << inputText(input) << "\n";
  os << "  outputs " << treeText(signature.outputs) << "\n";
  for (size_t i = 0; i < signature.leaves.size(); ++i)
    os << "  " << leafText(signature.leaves[i], i) << "\n";
  const AttributePrinter printer(model.attributes, options);
  for (const Attribute &attribute : model.attributes) {
    std::string text = TRY(printer.text(attribute));
    os << "  " << text << "\n";
  }
  for (const Obligation &obligation : model.obligations)
    os << "  obligation " << llvm::json::Value(llvm::json::fixUTF8(toString(obligation))) << "\n";
  return llvm::Error::success();
}

/// The names of graph inputs: `self` of a front model, the arguments, the attributes.
std::vector<std::string> inputNames(const Model &model) {
  std::vector<std::string> names;
  if (!model.self.isNone())
    names.push_back("self");
  for (const InputSpec &input : model.signature.inputs)
    names.push_back(input.name);
  for (const Attribute &attribute : model.attributes)
    names.push_back(attribute.name);
  return names;
}

std::vector<std::string> inputNames(const StagePlan &stage) {
  std::vector<std::string> names;
  for (const StageInput &input : stage.inputs)
    names.push_back(input.name);
  for (const StageAttribute &attribute : stage.attributes)
    names.push_back(attribute.name);
  return names;
}

void printStage(const Stage &stage, size_t index, llvm::raw_ostream &os,
                const TextOptions &options) {
  os << "  " << stageText(stage.plan, index) << " {\n";
  for (const StageInput &input : stage.plan.inputs)
    os << "    " << stageInputText(input) << "\n";
  for (const StageOutput &output : stage.plan.outputs)
    os << "    " << stageOutputText(output) << "\n";
  for (const StageAttribute &attribute : stage.plan.attributes)
    os << "    " << stageAttributeText(attribute) << "\n";
  if (const std::string effects = effectsText(stage.plan.effects); !effects.empty())
    os << "    " << effects << "\n";
  if (stage.graph)
    printGraph(*stage.graph, os, 4, options.scopes, inputNames(stage.plan));
  os << "  }\n";
}

std::string costsText(const std::vector<NodeCost> &costs) {
  std::vector<std::string> words;
  for (const NodeCost &cost : costs)
    words.push_back(fmt::format("{}/{}", cost.flops, cost.outputBytes));
  return "costs " + listText(words);
}

TextOptions structureOptions() {
  TextOptions options;
  options.data = TextOptions::Data::None;
  options.digests = false;
  return options;
}

} // namespace

llvm::Error print(const Model &model, llvm::raw_ostream &os, const TextOptions &options) {
  os << "model";
  TRY(printCommon(model, os, options));
  if (options.costs && !options.costs->empty())
    os << "  " << costsText(*options.costs) << "\n";
  for (const size_t index : model.stateOutputs)
    os << "  state "
       << (index < model.attributes.size() ? quotedWord(model.attributes[index].name) : "?")
       << "\n";
  if (model.graph)
    printGraph(*model.graph, os, 2, options.scopes, inputNames(model));
  os << "}\n";
  return llvm::Error::success();
}

llvm::Error print(const StagedModel &model, llvm::raw_ostream &os, const TextOptions &options) {
  os << "staged";
  TRY(printCommon(model, os, options));
  for (size_t i = 0; i < model.stages.size(); ++i)
    printStage(model.stages[i], i, os, options);
  for (const Channel &channel : model.channels)
    os << "  " << channelText(channel) << "\n";
  for (const Tie &tie : model.ties)
    os << "  " << tieText(tie) << "\n";
  os << "}\n";
  return llvm::Error::success();
}

llvm::Expected<std::string> toText(const AnyModel &model, const TextOptions &options) {
  std::string text;
  llvm::raw_string_ostream os(text);
  TRY(std::visit([&](const auto &kind) { return print(kind, os, options); }, model));
  return os.str();
}

std::string structureText(const AnyModel &model, const std::vector<NodeCost> *costs) {
  TextOptions options = structureOptions();
  options.costs = costs;
  llvm::Expected<std::string> text = toText(model, options);
  if (text)
    return std::move(*text);
  llvm::consumeError(text.takeError()); // without data nothing can fail
  return "";
}

} // namespace pipec
