// resolve-ties: weights that several stages use are copied into each of them, or sent from the
// first one.
#include "passes/ResolveTies.h"

#include "ir/TensorKey.h"
#include "ir/batch/TensorSpecs.h"
#include "ir/plan/PlanNames.h"
#include "ir/support/Error.h"
#include "ir/support/Try.h"
#include "ir/support/Words.h"
#include "passes/Passes.h"
#include "passes/support/StageInputs.h"

#include <map>
#include <optional>
#include <set>

namespace pipec {

namespace {

class ResolveTies : public StagedPass {
public:
  explicit ResolveTies(ResolveTiesOptions options) : options_(std::move(options)) {}

  llvm::Expected<bool> run(StagedModel &model, PassContext &context) override {
    for (size_t i = 0; i < model.attributes.size(); ++i)
      indexOf_[model.attributes[i].name] = i;
    for (const auto &[name, mode] : options_.byName)
      if (std::vector<std::string> names = allNames(model); !llvm::is_contained(names, name))
        return makeError(ExitCode::Usage, "--tied: expected a weight of the model, got " + name,
                         didYouMean(name, names, "use a name of the model's state dict"));
    bool changed = false;
    for (Tie &tie : findTies(model)) {
      if (llvm::any_of(model.ties, [&](const Tie &known) { return known.names == tie.names; }))
        continue; // found by an earlier run
      Tie::Mode mode = TRY(modeOf(model, tie));
      tie.mode = mode;
      if (tie.mode == Tie::Mode::Transmit)
        transmit(model, tie);
      model.ties.push_back(std::move(tie));
      changed = true;
    }
    noteUntied(model, context);
    return changed;
  }

private:
  static bool isWeight(const Attribute &attribute) {
    return attribute.storage >= 0 &&
           (attribute.kind == AttributeKind::Parameter || attribute.kind == AttributeKind::Buffer);
  }

  static std::vector<std::string> allNames(const StagedModel &model) {
    std::vector<std::string> names;
    for (const Attribute &attribute : model.attributes)
      llvm::append_range(names, attribute.allNames());
    return names;
  }

  /// Weights of overlapping memory that more than one stage holds, in order of storage.
  std::vector<Tie> findTies(const StagedModel &model) const {
    std::map<int64_t, Tie> byStorage;
    std::map<int64_t, std::set<size_t>> stagesOf;
    for (size_t s = 0; s < model.stages.size(); ++s)
      for (const StageAttribute &entry : model.stages[s].plan.attributes) {
        const Attribute &attribute = model.attributes[indexOf_.at(entry.name)];
        if (!isWeight(attribute))
          continue;
        stagesOf[attribute.storage].insert(s);
        Tie &tie = byStorage[attribute.storage];
        for (const std::string &name : attribute.allNames())
          if (!llvm::is_contained(tie.names, name))
            tie.names.push_back(name);
      }
    std::vector<Tie> ties;
    for (auto &[storage, tie] : byStorage) {
      if (stagesOf[storage].size() < 2)
        continue;
      tie.stages.assign(stagesOf[storage].begin(), stagesOf[storage].end());
      tie.owner = tie.stages.front();
      ties.push_back(std::move(tie));
    }
    return ties;
  }

  /// Notes a given name that is not a tie of any stage.
  void noteUntied(const StagedModel &model, PassContext &context) const {
    for (const auto &[name, mode] : options_.byName)
      if (llvm::none_of(model.ties,
                        [&](const Tie &tie) { return llvm::is_contained(tie.names, name); }))
        context.notes.push_back("--tied " + name + "=" + toString(mode).str() +
                                " changes nothing: no two stages use this weight");
  }

  llvm::Expected<Tie::Mode> modeOf(const StagedModel &model, const Tie &tie) const {
    std::optional<Tie::Mode> mode = options_.mode;
    std::string decider;
    for (const std::string &name : tie.names) {
      auto given = options_.byName.find(name);
      if (given == options_.byName.end())
        continue;
      if (!decider.empty() && mode != given->second)
        return failf(ExitCode::Usage,
                     "--tied: {} and {} are one weight: expected one mode for both, got {} and {}",
                     decider, name, toString(*mode).str(), toString(given->second).str());
      mode = given->second;
      decider = name;
    }
    if (mode)
      return *mode;
    // Inference never changes a weight: a copy costs memory once, sending it costs a transfer and
    // the same memory.
    return model.mode == Mode::Infer ? Tie::Mode::Replicate : Tie::Mode::Transmit;
  }

  void transmit(StagedModel &model, const Tie &tie) {
    for (size_t s : tie.stages) {
      if (s == tie.owner)
        continue;
      std::vector<StageAttribute> &entries = model.stages[s].plan.attributes;
      for (size_t i = 0; i < entries.size(); ++i)
        if (model.attributes[indexOf_.at(entries[i].name)].storage == storageOf(model, tie))
          send(model, tie.owner, s, i);
    }
  }

  int64_t storageOf(const StagedModel &model, const Tie &tie) const {
    for (const Attribute &attribute : model.attributes)
      if (attribute.name == tie.names.front() ||
          llvm::is_contained(attribute.otherNames, tie.names.front()))
        return attribute.storage;
    return -1;
  }

  void send(StagedModel &model, size_t owner, size_t stage, size_t port) {
    StageAttribute &entry = model.stages[stage].plan.attributes[port];
    size_t ownerPort = holdIn(model, owner, indexOf_.at(entry.name), stage);
    auto existing = llvm::find_if(model.channels, [&](const Channel &channel) {
      return channel.kind == Channel::Kind::Weight && channel.from == PortRef{owner, ownerPort};
    });
    if (existing == model.channels.end()) {
      Channel channel;
      channel.kind = Channel::Kind::Weight;
      channel.name = "w" + std::to_string(model.channels.size());
      channel.from = {owner, ownerPort};
      channel.type = "Tensor";
      const StageAttribute &owned = model.stages[owner].plan.attributes[ownerPort];
      channel.tensor = specOf(model.attributes[indexOf_.at(owned.name)].value.toTensor());
      channel.tensor.requiresGrad = owned.requiresGrad;
      model.stages[owner].plan.weightChannelsOut.push_back(model.channels.size());
      model.channels.push_back(std::move(channel));
      existing = std::prev(model.channels.end());
    }
    existing->to.push_back({stage, port});
    existing->skip |= stage != owner + 1;
    entry.channel = existing - model.channels.begin();
    if (entry.kind == AttributeKind::Parameter)
      model.stages[stage].plan.parameterBytes -= entry.bytes;
  }

  static bool goesTo(const StagedModel &model, const PortRef &from, size_t stage) {
    return llvm::any_of(model.channels, [&](const Channel &channel) {
      return channel.kind == Channel::Kind::Weight && channel.from == from &&
             llvm::any_of(channel.to, [&](const PortRef &to) { return to.stage == stage; });
    });
  }

  /// The index, among the owner's attributes, of the attribute with the same elements. Adds an
  /// unused one if the owner has only another view of them, or already sends them to the stage
  /// under another name, which has its own port in the stage.
  size_t holdIn(StagedModel &model, size_t owner, size_t attribute, size_t receiver) {
    const Attribute &wanted = model.attributes[attribute];
    Stage &stage = model.stages[owner];
    for (size_t i = 0; i < stage.plan.attributes.size(); ++i) {
      const Attribute &candidate = model.attributes[indexOf_.at(stage.plan.attributes[i].name)];
      if (candidate.storage == wanted.storage &&
          keyOf(candidate.value.toTensor()) == keyOf(wanted.value.toTensor()) &&
          !goesTo(model, {owner, i}, receiver))
        return i;
    }
    StageAttribute entry = stageAttribute(wanted);
    if (entry.kind == AttributeKind::Parameter)
      stage.plan.parameterBytes += entry.bytes;
    return insertAttribute(stage, std::move(entry));
  }

  const ResolveTiesOptions options_;
  std::map<std::string, size_t> indexOf_;
};

/// Errors: Usage for a word that is no mode, and for two modes of one name.
llvm::Error parseNames(ResolveTiesOptions &options, llvm::StringRef text) {
  for (llvm::StringRef part : listOfOption(text)) {
    auto [name, value] = part.rsplit('/');
    llvm::Expected<Tie::Mode> mode = parseTieMode(value);
    if (!mode) {
      llvm::consumeError(mode.takeError());
      return makeError(ExitCode::Usage,
                       "option names: expected NAME/transmit or NAME/replicate, got " + part.str());
    }
    TRY(options.add(name.str(), *mode));
  }
  return llvm::Error::success();
}

std::string printNames(const ResolveTiesOptions &options) {
  std::vector<std::string> parts;
  for (const auto &[name, mode] : options.byName)
    parts.push_back(name + "/" + toString(mode).str());
  return llvm::join(parts, ":");
}

} // namespace

llvm::Error ResolveTiesOptions::add(const std::string &name, Tie::Mode one) {
  const Tie::Mode known =
      name.empty() ? mode.value_or(one) : byName.try_emplace(name, one).first->second;
  if (known != one)
    return failf(ExitCode::Usage, "--tied: expected one mode for {}, got {} and {}",
                 name.empty() ? "all weights" : name, toString(known).str(), toString(one).str());
  if (name.empty())
    mode = one;
  return llvm::Error::success();
}

OptionFields<ResolveTiesOptions> ResolveTiesOptions::fields() {
  return {choiceOption<ResolveTiesOptions, std::optional<Tie::Mode>>(
              "mode=transmit|replicate|cost",
              "for all ties; default cost: copies when weights do not change",
              &ResolveTiesOptions::mode,
              {{"transmit", Tie::Mode::Transmit},
               {"replicate", Tie::Mode::Replicate},
               {"cost", std::nullopt}}),
          {"names=NAME/MODE:NAME/MODE", "for single weights", printNames, parseNames}};
}

PassInfo resolveTies() {
  return {.name = "resolve-ties",
          .description = "gives every weight that several stages use one owner that sends it, or a "
                         "copy in each stage",
          .requires_ = "the model is cut into stages",
          .guarantees = "each such weight is in `ties`; a transmitted one has a weight channel to "
                        "every stage but its owner",
          .example = R"(
    stage 0 uses emb.weight, stage 3 uses head.weight, one tensor in the source
    => resolve-ties{mode=transmit}
    channel w4 weight 0:0 -> 3:1)",
          .options = optionsOf<ResolveTiesOptions>(),
          .make = withOptions<ResolveTies, ResolveTiesOptions>()};
}

} // namespace pipec
