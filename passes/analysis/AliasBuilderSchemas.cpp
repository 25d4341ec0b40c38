// The memory of an operator's values, by its schema.
#include "ir/NodeInfo.h"
#include "passes/analysis/AliasBuilder.h"
#include "passes/analysis/MemoryTypes.h"
#include "passes/analysis/OperatorFacts.h"

#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <algorithm>

namespace pipec {

void AliasBuilder::bind(std::vector<NamedSet> &sets, MemoryGraph &memory, c10::Symbol name,
                        Location location) {
  for (const NamedSet &set : sets) {
    if (set.name == name) {
      memory.unite(set.location, location);
      return;
    }
  }
  sets.push_back({name, location});
}

void AliasBuilder::visitSchema(Node *node, const c10::FunctionSchema &schema) {
  std::vector<NamedSet> sets;
  const size_t described = std::min(schema.arguments().size(), node->inputs().size());
  for (size_t i = 0; i < described; ++i) {
    if (const c10::AliasInfo *info = schema.arguments()[i].alias_info();
        info && !isOnlyRead(node, i))
      bindArgument(node, i, *info, sets);
  }
  for (size_t i = 0; i < described; ++i) {
    const c10::AliasInfo *info = schema.arguments()[i].alias_info();
    if (info && info->isWrite() && !isOnlyRead(node, i) && !writesElements(node, i))
      insertInto(node, i, schema);
  }
  auto [first, last] = hiddenWrites(node);
  for (size_t i = first; i < last; ++i) {
    if (std::optional<Location> location = give(node->inputs()[i]))
      write(*location, node);
  }
  for (size_t i = 0; i < node->outputs().size(); ++i) {
    const c10::AliasInfo *info =
        i < schema.returns().size() ? schema.returns()[i].alias_info() : nullptr;
    bindResult(node, node->outputs()[i], info, sets);
  }
  // `list += other` returns the list; its schema does not say so.
  if (node->kind() == c10::aten::add_ && mayHold(*node->input(0)->type()))
    uniteValues(node->input(0), node->output());
}

void AliasBuilder::bindArgument(Node *node, size_t index, const c10::AliasInfo &info,
                                std::vector<NamedSet> &sets) {
  std::optional<Location> location = give(node->inputs()[index]);
  if (!location)
    return;
  for (c10::Symbol name : info.beforeSets()) {
    if (name != c10::AliasInfo::wildcardSet())
      bind(sets, memory_, name, *location);
  }
  if (info.isWrite())
    write(*location, node, !isMadeInBlock(node->inputs()[index]));
  for (const c10::AliasInfo &contained : info.containedTypes()) {
    const Location element = memory_.element(*location);
    for (c10::Symbol name : contained.beforeSets()) {
      if (name != c10::AliasInfo::wildcardSet())
        bind(sets, memory_, name, element);
    }
    if (contained.isWrite())
      write(element, node);
  }
}

/// A written list, dict or object may now hold any other argument that, by the schema, may go into
/// a container, or its contents.
void AliasBuilder::insertInto(Node *node, size_t container, const c10::FunctionSchema &schema) {
  Value *target = node->inputs()[container];
  std::optional<Location> into = give(target);
  if (!into || !mayHold(*target->type()))
    return;
  for (size_t i = 0; i < node->inputs().size(); ++i) {
    Value *argument = node->inputs()[i];
    std::optional<Location> location = give(argument);
    if (i == container || !location)
      continue;
    const c10::AliasInfo *info =
        i < schema.arguments().size() ? schema.arguments()[i].alias_info() : nullptr;
    if (info && info->isWildcardAfter())
      memory_.hold(*into, *location);
    else if (mayHold(*argument->type()))
      memory_.hold(*into, memory_.element(*location));
  }
}

void AliasBuilder::bindResult(Node *node, Value *output, const c10::AliasInfo *info,
                              std::vector<NamedSet> &sets) {
  std::optional<Location> location = give(output);
  if (!location)
    return;
  if (mayReturnInput(node)) {
    for (Value *input : node->inputs()) {
      std::optional<Location> from = give(input);
      if (!from)
        continue;
      const Location memory = mayHold(*input->type()) ? memory_.element(*from) : *from;
      memory_.unite(mayHold(*output->type()) ? memory_.element(*location) : *location, memory);
    }
  }
  if (!info || info->beforeSets().empty()) {
    if (mayHold(*output->type()) && (!info || info->containedTypes().empty()))
      bindToContents(node, output, false);
  } else if (info->beforeSets().count(c10::AliasInfo::wildcardSet())) {
    bindToContents(node, output, true);
  }
  if (!info)
    return;
  for (c10::Symbol name : info->beforeSets()) {
    if (name != c10::AliasInfo::wildcardSet())
      bind(sets, memory_, name, *location);
  }
  for (const c10::AliasInfo &contained : info->containedTypes()) {
    for (c10::Symbol name : contained.beforeSets()) {
      if (name != c10::AliasInfo::wildcardSet())
        bind(sets, memory_, name, memory_.element(*location));
    }
  }
}

void AliasBuilder::bindToContents(Node *node, Value *output, bool mayBeInput) {
  const Location result = *give(output);
  auto bare = [](const c10::TypePtr &type) {
    auto optional = type->cast<c10::OptionalType>();
    return optional ? optional->getElementType() : type;
  };
  auto holds = [](const c10::TypePtr &container, const c10::Type &element) {
    return llvm::any_of(container->containedTypes(),
                        [&](const c10::TypePtr &held) { return *held == element; });
  };
  const c10::TypePtr made = bare(output->type());
  for (Value *input : node->inputs()) {
    std::optional<Location> location = give(input);
    if (!location)
      continue;
    const c10::TypePtr given = bare(input->type());
    if (mayBeInput && *given == *made)
      memory_.unite(result, *location); // a default value, or the key
    if (!mayHold(*given))
      continue;
    if (holds(given, *made)) {
      memory_.unite(result, memory_.element(*location));
    } else if (!made->containedTypes().empty() && !given->containedTypes().empty() &&
               *made->containedTypes().back() == *given->containedTypes().back()) {
      memory_.hold(result, memory_.element(*location));
    } else { // items(), popitem(): one level more or less
      memory_.unite(result, memory_.element(*location));
      memory_.collapse(result);
    }
  }
  read(output); // as in visitExtract
}

} // namespace pipec
