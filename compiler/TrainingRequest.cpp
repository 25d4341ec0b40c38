#include "compiler/TrainingRequest.h"

#include "compiler/GivenSchedule.h"
#include "llvm/ADT/STLExtras.h"

namespace pipec {

namespace {

bool isCalled(const Attribute &attribute, const std::string &name) {
  return attribute.name == name || llvm::is_contained(attribute.otherNames, name);
}

/// The table knows a weight by one of its names.
bool isOf(const SharedWeight &weight, const Model &model, const Attribute &named) {
  return llvm::any_of(model.attributes, [&](const Attribute &attribute) {
    return attribute.name == weight.name &&
           (&attribute == &named || (named.storage >= 0 && attribute.storage == named.storage));
  });
}

} // namespace

TrainingWishes trainingWishes(const CompileOptions &options, const Model &model,
                              const CostTable &table) {
  TrainingWishes wishes;
  wishes.ranks = options.ranks;
  wishes.stages = options.stages;
  wishes.batch = options.batch;
  wishes.microBatches = options.microBatches;
  wishes.memoryLimit = options.memoryLimit;
  wishes.recompute = options.recompute;
  wishes.splitBackward = options.splitBackward;
  if (options.schedule)
    if (const auto *named = std::get_if<NamedSchedule>(&*options.schedule))
      wishes.schedule = named->name;
  if (const ScheduleTable *given = givenTable(options))
    wishes.table = llvm::cantFail(scheduleFromCsv(given->csv)); // it was read before
  for (const auto &[name, mode] : options.tied) {
    if (name.empty())
      wishes.tied = mode;
    for (const Attribute &attribute : model.attributes)
      if (isCalled(attribute, name)) // others are refused when weights get their owners
        for (const SharedWeight &weight : table.shared)
          if (isOf(weight, model, attribute))
            wishes.tiedByName.emplace(weight.name, mode);
  }
  return wishes;
}

} // namespace pipec
