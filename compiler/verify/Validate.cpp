#include "compiler/verify/Validate.h"

#include "compiler/Import.h"
#include "ir/TensorBytes.h"
#include "ir/TensorKey.h"
#include "ir/TorchError.h"
#include "ir/WholeNumbers.h"
#include "ir/artifact/Discharge.h"
#include "ir/artifact/LineDifference.h"
#include "ir/artifact/Relink.h"
#include "ir/support/OwnFault.h"
#include "ir/support/Sha256.h"
#include "ir/support/Try.h"
#include "ir/text/CanonicalText.h"
#include "ir/text/ContentText.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "passes/analysis/OperatorOrder.h"

#include <atomic>
#include <map>
#include <memory>
#include <thread>

namespace pipec {

namespace {

/// The error by which the functions below report a difference. Callers use its text.
llvm::Error differs(const std::string &message) { return makeError(ExitCode::Internal, message); }

const Attribute *find(const SourceRecord &source, const std::string &name) {
  auto found = source.indexOf.find(name);
  return found == source.indexOf.end() ? nullptr : &source.attributes[found->second];
}

std::vector<std::string> sorted(std::vector<std::string> names) {
  llvm::sort(names);
  return names;
}

llvm::Error compareAttributes(const StagePlan &stage, const std::string &where,
                              const SourceRecord &source) {
  for (const StageAttribute &entry : stage.attributes) {
    const Attribute *expected = find(source, entry.name);
    if (!expected)
      return differs(fmt::format("{}: the source has no attribute {}", where, entry.name));
    if (sorted(entry.otherNames) != sorted(expected->otherNames))
      return differs(fmt::format("{}: other names of {}: expected [{}], got [{}]", where,
                                 entry.name, llvm::join(expected->otherNames, ", "),
                                 llvm::join(entry.otherNames, ", ")));
    if (entry.written != expected->written || entry.requiresGrad != expected->requiresGrad)
      return differs(fmt::format(
          "{}: {}: expected written={} requires_grad={}, got written={} requires_grad={}", where,
          entry.name, expected->written, expected->requiresGrad, entry.written,
          entry.requiresGrad));
  }
  return llvm::Error::success();
}

/// Tensors of one stage share memory exactly where they do in the source: a write into one is
/// visible in the other. Tensors that overlap only through a tensor in another stage do not share
/// memory, which is safe because no stage writes it (compareOwners).
llvm::Error compareSharing(const StagePlan &stage, const StageFacts &facts,
                           const std::string &where, const SourceRecord &source) {
  std::vector<at::Tensor> tensors(stage.attributes.size());
  for (size_t a = 0; a < stage.attributes.size(); ++a)
    if (const c10::IValue &value = find(source, stage.attributes[a].name)->value;
        facts.storages[a] >= 0 && value.isTensor())
      tensors[a] = value.toTensor();
  const std::vector<int64_t> expected = storageIds(tensors);
  std::map<int64_t, size_t> firstOfSource, firstOfStage; // attributes, by storage there
  for (size_t a = 0; a < stage.attributes.size(); ++a) {
    if (facts.storages[a] < 0)
      continue;
    const size_t inSource = firstOfSource.try_emplace(expected[a], a).first->second;
    const size_t inStage = firstOfStage.try_emplace(facts.storages[a], a).first->second;
    if (inSource == inStage)
      continue;
    // The earlier of the two shares memory on one side only.
    return differs(fmt::format("{}: {} and {} share memory: expected {}, got {}", where,
                               stage.attributes[std::min(inSource, inStage)].name,
                               stage.attributes[a].name, inSource < inStage, inStage < inSource));
  }
  return llvm::Error::success();
}

/// Written memory lives in one stage: a second stage would keep a stale copy.
llvm::Error compareOwners(const Plan &plan, const SourceRecord &source) {
  struct Holder {
    size_t stage;
    const Attribute *attribute;
  };
  std::map<int64_t, std::vector<Holder>> holders; // by storage
  for (size_t s = 0; s < plan.stages.size(); ++s)
    for (const StageAttribute &entry : plan.stages[s].attributes)
      if (const Attribute *attribute = find(source, entry.name); attribute->storage >= 0)
        holders[attribute->storage].push_back({s, attribute});
  for (const auto &[storage, all] : holders) {
    auto writer = llvm::find_if(all, [](const Holder &h) { return h.attribute->written; });
    if (writer == all.end() || source.onlyAssigned.count(storage))
      continue;
    for (const Holder &other : all)
      if (other.stage != writer->stage)
        return differs(fmt::format("{} is written: expected it in stage {} only, got its memory "
                                   "({}) in stage {} too",
                                   writer->attribute->name, writer->stage, other.attribute->name,
                                   other.stage));
  }
  return llvm::Error::success();
}

/// Compares the description of the stages in the plan. Their programs and weights have been
/// compared before.
llvm::Error comparePlan(const Plan &plan, const Relinked &linked, const SourceRecord &source) {
  if (plan.signature != source.signature)
    return differs("the plan's arguments, results or merge rules are not the source's");
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    std::string where = fmt::format("stage {}", s);
    TRY(compareAttributes(plan.stages[s], where, source));
    TRY(compareSharing(plan.stages[s], linked.stages[s], where, source));
  }
  return compareOwners(plan, source);
}

/// The bytes of a weight that are worth digesting together with something else.
std::optional<llvm::StringRef> largeBytes(const c10::IValue &value) {
  constexpr size_t kLarge = size_t(64) << 10;
  if (!value.isTensor())
    return std::nullopt;
  std::optional<llvm::StringRef> bytes = digestedInPlace(value.toTensor());
  return bytes && bytes->size() >= kLarge ? bytes : std::nullopt;
}

std::string contentOf(const c10::IValue &value, StableBytes &stable) {
  std::optional<llvm::StringRef> bytes = largeBytes(value);
  if (!bytes)
    return contentText(value);
  return contentText(value.toTensor(), stable.digestOf(*bytes, [&] { return sha256Hex(*bytes); }));
}

/// Each thread takes the next weight that no thread has taken. The nodes of the map keep their
/// addresses when the record moves.
void digestInBackground(SourceRecord &record, bool large) {
  constexpr size_t kMostThreads = 4;
  auto all = std::make_shared<std::vector<KnownWeight *>>();
  for (auto &[name, weight] : record.weights)
    if (largeBytes(weight.value).has_value() == large)
      all->push_back(&weight);
  auto next = std::make_shared<std::atomic<size_t>>(0);
  const size_t threads = std::min<size_t>(
      all->size(), std::clamp<size_t>(std::thread::hardware_concurrency(), 1, kMostThreads));
  for (size_t i = 0; i < threads; ++i)
    record.digesting.push_back(std::async(std::launch::async, [all, next, stable = record.stable] {
      for (size_t w = (*next)++; w < all->size(); w = (*next)++)
        (*all)[w]->content = contentOf((*all)[w]->value, *stable);
    }));
}

std::string lineOf(const SourceRecord &source, const std::string &name) {
  return attributeLine(name, find(source, name)->kind, source.weights.at(name).content);
}

SourceDifference otherWeight(const std::string &name, const std::string &expected,
                             const std::string &got) {
  auto content = [&](const std::string &line) {
    return line.empty() ? "nothing" : line.substr(std::min(line.size(), name.size() + 1));
  };
  return {"weight " + name,
          fmt::format("a weight of the stages is not the source's: {}: expected {}, got {}", name,
                      content(expected), content(got)),
          std::nullopt};
}

/// Compares the exact content of weights. The lines of weights, whose digest is in the plan, hold
/// only the type of an object, and nothing of an empty list.
std::optional<SourceDifference> compareExactly(const SourceRecord &source, const Relinked &linked) {
  for (const auto &[name, weight] : source.weights) {
    if (!hasExactText(weight.value))
      continue;
    const std::string expected = contentText(weight.value, Detail::Exact);
    auto found = linked.objects.find(name);
    if (found == linked.objects.end() || found->second != expected)
      return otherWeight(name, name + " " + expected,
                         found == linked.objects.end() ? "" : name + " " + found->second);
  }
  return std::nullopt;
}

std::optional<SourceDifference> compareWeights(const SourceRecord &source, const Relinked &linked) {
  for (const auto &[name, weight] : source.weights) {
    std::string expected = lineOf(source, name);
    auto found = linked.weights.find(name);
    if (found == linked.weights.end() || found->second != expected)
      return otherWeight(name, expected, found == linked.weights.end() ? "" : found->second);
  }
  for (const auto &[name, line] : linked.weights)
    if (!source.weights.count(name))
      return otherWeight(name, "", line);
  return compareExactly(source, linked);
}

/// Linking restores the source's order from the plan. Checks that the order in which the stages run
/// the operators computes the same.
llvm::Error compareOrder(const Plan &plan, const Relinked &linked) {
  const std::optional<std::vector<size_t>> order = orderOf(plan.obligations);
  if (!order)
    return llvm::Error::success();
  const TopLevel top = topLevelOf(linked.model);
  std::vector<size_t> counted, moved;
  for (size_t i = 0; i < top.operators.size(); ++i)
    if (!isWholeNumberOp(top.operators[i]))
      counted.push_back(i);
  for (size_t source : *order)
    moved.push_back(counted[source]);
  const std::string why = OperatorOrder(top, CutLegality(linked.model, top)).why(moved);
  if (why.empty())
    return llvm::Error::success();
  return differs("the order of operators: expected one that computes the same, but " + why);
}

} // namespace

SourceRecord recordSource(const Model &model) {
  SourceRecord record;
  record.lines = canonicalLines(model);
  record.signature = model.signature;
  record.attributes = model.attributes;
  record.onlyAssigned = onlyAssignedStorages(model);
  record.wholeNumberOps = countWholeNumberOps(model);
  for (size_t i = 0; i < record.attributes.size(); ++i) {
    const Attribute &attribute = record.attributes[i];
    record.indexOf[attribute.name] = i;
    if (attribute.kind != AttributeKind::Constant) // those are in the lines, by content
      record.weights[attribute.name].value = attribute.value;
  }
  record.stable = std::make_shared<StableBytes>();
  for (const auto &[name, weight] : record.weights)
    if (std::optional<llvm::StringRef> bytes = largeBytes(weight.value))
      record.stable->add(*bytes, std::make_shared<at::Tensor>(weight.value.toTensor()));
  digestInBackground(record, /*large=*/false);
  return record;
}

void finish(SourceRecord &source) {
  if (!source.digest.empty())
    return;
  digestInBackground(source, /*large=*/true);
  for (std::future<void> &part : source.digesting)
    part.get();
  source.digesting.clear();
  std::vector<std::string> lines;
  for (const auto &[name, weight] : source.weights)
    lines.push_back(lineOf(source, name));
  source.digest = contentDigest(source.lines, std::move(lines));
}

std::map<std::string, at::Tensor> weightsNotReadBack(const SourceRecord &source, ReadBack large) {
  std::map<std::string, at::Tensor> weights;
  if (large == ReadBack::All || !source.stable->anyWritten())
    return weights;
  for (const auto &[name, weight] : source.weights)
    if (std::optional<llvm::StringRef> bytes = largeBytes(weight.value);
        bytes && source.stable->has(*bytes))
      weights.emplace(name, weight.value.toTensor());
  return weights;
}

std::string whatWasProved(const SourceRecord &source, ReadBack large) {
  const std::string same =
      "the stages, read back from disk, are the normalised source operator by operator, and hold ";
  if (large == ReadBack::All || !source.stable->anyWritten())
    return same + "every byte of its weights";
  return same + "its weights: small ones byte by byte; large ones were hashed while they were "
                "written from the source's memory, and their ends read back (--verify run and "
                "pipe-check read all of them)";
}

llvm::Expected<std::optional<SourceDifference>> compareWithSource(const std::string &directory,
                                                                  const Plan &plan,
                                                                  const SourceRecord &source,
                                                                  ReadBack large) {
  Relinked linked = TRY(relink(directory, plan, source.weights,
                               large == ReadBack::Ends ? source.stable.get() : nullptr));
  using Result = std::optional<SourceDifference>;
  if (std::optional<size_t> line = firstDifferentLine(source.lines, linked.lines))
    return Result({"",
                   "the stages are not the source: " + firstDifference(source.lines, linked.lines),
                   line});
  llvm::Expected<Result> weight = guardTorch(ExitCode::Internal, "comparing weights",
                                             [&] { return compareWeights(source, linked); });
  if (!weight || *weight)
    return weight;
  if (linked.digest != source.digest)
    return Result({"", "expected digest " + source.digest + ", got " + linked.digest, {}});
  if (llvm::Error error = discharge(plan, linked.stages, &source.wholeNumberOps))
    return Result({"", describe(std::move(error)).message, {}});
  if (llvm::Error error = compareOrder(plan, linked))
    return Result({"", describe(std::move(error)).message, {}});
  if (llvm::Error error = comparePlan(plan, linked, source))
    return Result({"", describe(std::move(error)).message, {}});
  return Result();
}

llvm::Error validate(const std::string &directory, const Plan &plan, const SourceRecord &source,
                     ReadBack large) {
  llvm::Expected<std::optional<SourceDifference>> difference =
      compareWithSource(directory, plan, source, large);
  if (!difference)
    return ownFault("validation", difference.takeError());
  if (*difference)
    return makeError(ExitCode::Internal, "validation: " + (*difference)->message);
  return llvm::Error::success();
}

} // namespace pipec
