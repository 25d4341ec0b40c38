#include "compiler/Validate.h"

#include "ir/CanonicalText.h"
#include "ir/artifact/Discharge.h"
#include "ir/artifact/Relink.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/ranges.h>

#include <map>

namespace pipec {

namespace {

llvm::Error differs(const std::string &message) {
  return makeError(ExitCode::Internal, "validation: " + message);
}

const Attribute *find(const SourceRecord &source, const std::string &name) {
  auto found = llvm::find_if(source.attributes,
                             [&](const Attribute &attribute) { return attribute.name == name; });
  return found == source.attributes.end() ? nullptr : &*found;
}

llvm::Error compareAttributes(const StagePlan &stage, const std::string &where,
                              const SourceRecord &source) {
  for (const StageAttribute &entry : stage.attributes) {
    const Attribute *expected = find(source, entry.name);
    if (!expected)
      return differs(fmt::format("{}: the source has no attribute {}", where, entry.name));
    if (entry.otherNames != expected->otherNames)
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

/// Tensors of one stage share memory exactly where they do in the source: a write into one is seen
/// in the other.
llvm::Error compareSharing(const StagePlan &stage, const StageFacts &facts,
                           const std::string &where, const SourceRecord &source) {
  for (size_t a = 0; a < stage.attributes.size(); ++a)
    for (size_t b = 0; b < a; ++b) {
      if (facts.storages[a] < 0 || facts.storages[b] < 0)
        continue;
      bool expected = find(source, stage.attributes[a].name)->storage ==
                      find(source, stage.attributes[b].name)->storage;
      bool got = facts.storages[a] == facts.storages[b];
      if (expected != got)
        return differs(fmt::format("{}: {} and {} share memory: expected {}, got {}", where,
                                   stage.attributes[b].name, stage.attributes[a].name, expected,
                                   got));
    }
  return llvm::Error::success();
}

/// Memory that is written lives in one stage: a second one would keep a copy that nobody writes.
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
    if (writer == all.end())
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

/// Random operators are numbered in the order of the source.
llvm::Error compareEffects(const StageEffects &effects, const StageFacts &facts,
                           const std::string &where, int64_t &nextRandom) {
  std::vector<int64_t> expected;
  for (int64_t i = 0; i < facts.randomOps; ++i)
    expected.push_back(nextRandom++);
  if (effects.randomOps != expected)
    return differs(fmt::format("{}: numbers of random operators: expected [{}], got [{}]", where,
                               fmt::join(expected, ", "), fmt::join(effects.randomOps, ", ")));
  if (effects.prints != facts.prints || effects.raises != facts.raises)
    return differs(fmt::format("{}: expected prints={} raises={}, got prints={} raises={}", where,
                               facts.prints, facts.raises, effects.prints, effects.raises));
  return llvm::Error::success();
}

/// The plan's words about the stages; their programs and weights have been compared.
llvm::Error comparePlan(const Plan &plan, const Relinked &linked, const SourceRecord &source) {
  if (plan.signature != source.signature)
    return differs(
        "the plan's arguments, results or rules of joining micro-batches are not the source's");
  int64_t nextRandom = 0;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    std::string where = fmt::format("stage {}", s);
    if (llvm::Error error = compareAttributes(plan.stages[s], where, source))
      return error;
    if (llvm::Error error = compareSharing(plan.stages[s], linked.stages[s], where, source))
      return error;
    if (llvm::Error error =
            compareEffects(plan.stages[s].effects, linked.stages[s], where, nextRandom))
      return error;
  }
  return compareOwners(plan, source);
}

} // namespace

SourceRecord recordSource(const Model &model) {
  std::vector<std::string> lines = canonicalLines(model);
  std::string digest = contentDigest(lines, attributeLinesOf(model));
  SourceRecord record{std::move(lines), std::move(digest), model.signature, model.attributes,
                      countWholeNumberOps(model)};
  for (Attribute &attribute : record.attributes)
    attribute.value = c10::IValue();
  return record;
}

llvm::Error validate(const std::string &directory, const Plan &plan, const SourceRecord &source) {
  llvm::Expected<Relinked> linked = relink(directory, plan);
  if (!linked) {
    ErrorText text = describe(linked.takeError());
    return makeError(ExitCode::Internal, "validation: " + text.message);
  }
  std::string difference = firstDifference(source.lines, linked->lines);
  if (!difference.empty())
    return makeError(ExitCode::Internal,
                     "validation: the stages are not the source: " + difference);
  if (linked->digest != source.digest)
    return makeError(ExitCode::Internal,
                     "validation: a weight of the stages is not the source's: expected digest " +
                         source.digest + ", got " + linked->digest);
  if (llvm::Error error = discharge(plan, linked->stages, &source.wholeNumberOps))
    return differs(describe(std::move(error)).message);
  return comparePlan(plan, *linked, source);
}

} // namespace pipec
