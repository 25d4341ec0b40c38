#include "ir/text/ModelParser.h"

#include "ir/MarkerOps.h"
#include "ir/support/Llvm.h"
#include "ir/support/Try.h"
#include "ir/text/GraphText.h"
#include "ir/text/PlanText.h"

namespace pipec {
namespace {

/// One flops/bytes per top-level operator.
std::vector<NodeCost> parseCosts(TextLine &line) {
  std::vector<NodeCost> costs;
  const std::string text = line.word("a list of costs");
  const std::optional<std::vector<std::string>> words = splitList(text);
  if (!words)
    line.complain("costs: expected a list like [10/8,4/8], got " + text);
  for (llvm::StringRef word : words.value_or(std::vector<std::string>{})) {
    NodeCost cost;
    const auto [flops, bytes] = word.split('/');
    if (flops.getAsInteger(10, cost.flops) || bytes.getAsInteger(10, cost.outputBytes) ||
        cost.flops < 0 || cost.outputBytes < 0)
      line.complain("costs: expected FLOPS/BYTES, got " + word.str());
    costs.push_back(cost);
  }
  return costs;
}

class ModelParser {
public:
  ModelParser(llvm::StringRef text, std::string directory) : directory_(std::move(directory)) {
    text.split(lines_, '\n');
  }

  llvm::Expected<std::vector<ParsedModel>> parseAll() {
    std::vector<ParsedModel> models;
    while (skipToContent()) {
      ParsedModel model = TRY(parseOne());
      models.push_back(std::move(model));
    }
    return models;
  }

private:
  struct Common {
    Signature signature;
    std::vector<Obligation> obligations;
    std::string sourceDigest;
    Mode mode = Mode::Infer;
    bool hasTree = false;
    std::vector<std::pair<std::string, size_t>> states; // attribute name, line
  };

  llvm::StringRef current() const { return lines_[next_].trim(); }
  size_t lineNumber() const { return next_ + 1; }
  bool skipToContent() {
    while (next_ < lines_.size() && (current().empty() || startsWith(current(), "#")))
      ++next_;
    return next_ < lines_.size();
  }
  /// The current line after its first word, with the columns of the whole line.
  TextLine takeLine(std::string &keyword) {
    TextLine line(lines_[next_].rtrim(), lineNumber());
    keyword = line.word("a keyword");
    ++next_;
    return line;
  }
  llvm::Error missingEnd(const char *what) const {
    return textError(
        lines_.size(),
        fmt::format("expected }} at the end of the {}, got the end of the text", what));
  }

  llvm::Expected<ParsedModel> parseOne();
  llvm::Error parseBody(Common &common, AttributeReader &attributes, Model *model,
                        StagedModel *staged);
  bool parseCommonLine(const std::string &keyword, TextLine &line, Common &common,
                       AttributeReader &attributes);
  llvm::Expected<std::shared_ptr<torch::jit::Graph>> parseGraphHere();
  llvm::Expected<Stage> parseStageHere(TextLine &line, size_t index);
  llvm::Error finishModel(Model &model, const Common &common);

  std::string directory_;
  std::vector<NodeCost> costs_; // of the current model
  llvm::SmallVector<llvm::StringRef, 0> lines_;
  size_t next_ = 0;
};

llvm::Expected<ParsedModel> ModelParser::parseOne() {
  Common common;
  const size_t first = lineNumber();
  std::string keyword;
  TextLine line = takeLine(keyword);
  if (keyword != "model" && keyword != "staged")
    return textError(first, "expected model or staged, got " + keyword);
  common.signature.method = line.key("method").value_or("forward");
  const std::string mode = line.key("mode").value_or("infer");
  if (mode != "infer" && mode != "train")
    line.complain("mode: expected infer or train, got " + mode);
  common.mode = mode == "train" ? Mode::Train : Mode::Infer;
  line.expectLast("{");
  TRY(line.finish());

  costs_.clear();
  AttributeReader attributes(directory_);
  Model model;
  StagedModel staged;
  const bool isModel = keyword == "model";
  TRY(parseBody(common, attributes, isModel ? &model : nullptr, isModel ? nullptr : &staged));
  std::vector<Attribute> built = TRY(attributes.build());
  const auto adopt = [&](auto &target) {
    target.attributes = std::move(built);
    target.obligations = std::move(common.obligations);
    target.sourceDigest = std::move(common.sourceDigest);
    target.mode = common.mode;
  };
  if (isModel) {
    adopt(model);
    TRY(finishModel(model, common));
    return ParsedModel{std::move(model), attributes.takeNotes(), std::move(costs_)};
  }
  adopt(staged);
  staged.signature = std::move(common.signature);
  return ParsedModel{std::move(staged), attributes.takeNotes(), {}};
}

llvm::Error ModelParser::parseBody(Common &common, AttributeReader &attributes, Model *model,
                                   StagedModel *staged) {
  const char *what = model ? "model" : "staged model";
  while (skipToContent()) {
    if (current() == "}") {
      ++next_;
      if (model && !model->graph)
        return textError(next_, "the model has no graph");
      return llvm::Error::success();
    }
    if (model && startsWith(current(), "graph(")) {
      if (model->graph)
        return textError(lineNumber(), "the model has a second graph");
      model->graph = TRY(parseGraphHere());
      continue;
    }
    std::string keyword;
    TextLine line = takeLine(keyword);
    if (staged && keyword == "stage") {
      Stage stage = TRY(parseStageHere(line, staged->stages.size()));
      staged->stages.push_back(std::move(stage));
      continue;
    }
    if (staged && keyword == "channel")
      staged->channels.push_back(parseChannel(line));
    else if (staged && keyword == "tie")
      staged->ties.push_back(parseTie(line));
    else if (model && keyword == "state")
      common.states.emplace_back(line.word("the name of an attribute"), line.number());
    else if (model && keyword == "costs")
      costs_ = parseCosts(line);
    else if (!parseCommonLine(keyword, line, common, attributes))
      return textError(line.number(), fmt::format("a {} has no entity {}", what, keyword));
    TRY(line.finish());
  }
  return missingEnd(what);
}

bool ModelParser::parseCommonLine(const std::string &keyword, TextLine &line, Common &common,
                                  AttributeReader &attributes) {
  Signature &signature = common.signature;
  if (keyword == "source") {
    common.sourceDigest = line.word("a digest");
  } else if (keyword == "batch") {
    parseBatch(line, signature);
  } else if (keyword == "input") {
    signature.inputs.push_back(parseInput(line));
  } else if (keyword == "outputs") {
    signature.outputs = parseTree(line);
    common.hasTree = true;
  } else if (keyword == "output") {
    signature.leaves.push_back(parseLeaf(line, signature.leaves.size()));
  } else if (keyword == "attribute") {
    attributes.add(line);
  } else if (keyword == "obligation") {
    llvm::Expected<Obligation> obligation = parseObligation(line.word("an obligation"));
    if (obligation)
      common.obligations.push_back(std::move(*obligation));
    else
      line.complain(describe(obligation.takeError()).message);
  } else {
    return false;
  }
  return true;
}

/// A graph ends with its only top-level `return`: blocks end with an arrow.
llvm::Expected<std::shared_ptr<torch::jit::Graph>> ModelParser::parseGraphHere() {
  const size_t first = next_;
  std::string text;
  for (; next_ < lines_.size(); ++next_) {
    text += lines_[next_].rtrim().str() + "\n";
    if (!startsWith(current(), "return ("))
      continue;
    ++next_;
    registerMarkerOps();
    return parseGraph(text, first + 1);
  }
  return textError(first + 1,
                   "expected return (...) at the end of the graph, got the end of the text");
}

llvm::Expected<Stage> ModelParser::parseStageHere(TextLine &line, size_t index) {
  Stage stage;
  stage.plan = parseStage(line, index);
  line.expectLast("{");
  TRY(line.finish());
  while (skipToContent()) {
    if (current() == "}") {
      ++next_;
      if (!stage.graph)
        return textError(next_, fmt::format("stage {} has no graph", index));
      return stage;
    }
    if (startsWith(current(), "graph(")) {
      stage.graph = TRY(parseGraphHere());
      continue;
    }
    std::string keyword;
    TextLine inner = takeLine(keyword);
    if (keyword == "input")
      stage.plan.inputs.push_back(parseStageInput(inner));
    else if (keyword == "output")
      stage.plan.outputs.push_back(parseStageOutput(inner));
    else if (keyword == "uses")
      stage.plan.attributes.push_back(parseStageAttribute(inner));
    else if (keyword == "effects")
      stage.plan.effects = parseEffects(inner);
    else
      return textError(inner.number(), "a stage has no entity " + keyword);
    TRY(inner.finish());
  }
  return missingEnd("stage");
}

/// Signature parts that the text left out come from the graph; state outputs find their attributes.
llvm::Error ModelParser::finishModel(Model &model, const Common &common) {
  model.signature = common.signature;
  Signature &signature = model.signature;
  const GraphEnds ends = endsOf(*model.graph);
  if (signature.inputs.empty() && ends.inputs.size() > model.attributes.size())
    for (size_t i = 0; i < ends.inputs.size() - model.attributes.size(); ++i) {
      InputSpec input;
      input.name = ends.inputs[i].first;
      input.type = ends.inputs[i].second;
      signature.inputs.push_back(std::move(input));
    }
  if (signature.leaves.empty() && ends.outputs.size() > common.states.size())
    for (size_t i = 0; i < ends.outputs.size() - common.states.size(); ++i) {
      OutputLeaf leaf;
      leaf.type = ends.outputs[i];
      signature.leaves.push_back(std::move(leaf));
    }
  if (!common.hasTree && signature.leaves.size() != 1) {
    signature.outputs.kind = OutputTree::Kind::Tuple;
    for (size_t i = 0; i < signature.leaves.size(); ++i)
      signature.outputs.children.emplace_back().leaf = i;
  }
  for (const auto &[name, line] : common.states) {
    const auto found =
        llvm::find_if(model.attributes, [&](const Attribute &a) { return a.name == name; });
    if (found == model.attributes.end())
      return textError(line, fmt::format("state {}: there is no such attribute", name));
    model.stateOutputs.push_back(static_cast<size_t>(found - model.attributes.begin()));
  }
  return llvm::Error::success();
}

} // namespace

llvm::Expected<std::vector<ParsedModel>> parseModels(llvm::StringRef text,
                                                     const std::string &directory) {
  return ModelParser(text, directory).parseAll();
}

} // namespace pipec
