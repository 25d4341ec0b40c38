#include "tests/support/partition/ReadInstance.h"

#include "ir/support/Llvm.h"
#include "tests/support/JsonFile.h"

#include <set>

namespace pipec {

namespace {

/// A number array; an absent one is empty.
template <typename T> std::vector<T> numbers(const llvm::json::Object &object, const char *key) {
  std::vector<T> result;
  if (const llvm::json::Array *array = object.getArray(key))
    for (const llvm::json::Value &value : *array)
      result.push_back(static_cast<T>(valueOr(value.getAsNumber(), -1)));
  return result;
}

/// What the instances mean by contiguous: edges between forward nodes order their devices; an edge
/// between backward nodes does, reversed, where one end shares its colour with no forward node;
/// other edges only move data.
std::vector<std::pair<uint32_t, uint32_t>> orderOf(const PartitionProblem &problem,
                                                   const std::vector<bool> &isBackward) {
  std::set<int64_t> forwardColors;
  for (size_t node = 0; node < problem.color.size(); ++node)
    if (problem.color[node] != -1 && !isBackward[node])
      forwardColors.insert(problem.color[node]);
  auto followsForward = [&](uint32_t node) {
    return !problem.color.empty() && forwardColors.count(problem.color[node]) > 0;
  };
  std::vector<std::pair<uint32_t, uint32_t>> result;
  for (auto [source, target] : problem.edges)
    if (!isBackward[source] && !isBackward[target])
      result.emplace_back(source, target);
    else if (isBackward[source] && isBackward[target] &&
             !(followsForward(source) && followsForward(target)))
      result.emplace_back(target, source);
  return result;
}

} // namespace

llvm::Expected<PlacementInstance> readInstance(const std::string &path) {
  llvm::Expected<llvm::json::Value> value = readJsonFile(path);
  if (!value)
    return value.takeError();
  const llvm::json::Object *object = value->getAsObject();
  const llvm::json::Array *edges = object ? object->getArray("edges") : nullptr;
  if (!edges)
    return failf(ExitCode::Unreadable, "{}: expected an instance with edges", path);

  PlacementInstance instance;
  instance.name = valueOr(object->getString("name"), "").str();
  instance.nodeId = numbers<int64_t>(*object, "node_id");
  PartitionProblem &problem = instance.problem;
  DeviceKind accelerator, cpu;
  accelerator.count = static_cast<size_t>(valueOr(object->getInteger("accelerators"), 0));
  accelerator.memory = valueOr(object->getNumber("accel_memory"), kUnlimited);
  cpu.count = static_cast<size_t>(valueOr(object->getInteger("cpus"), 0));
  cpu.paysTransfers = false;
  problem.kinds = {accelerator, cpu};
  problem.time = {numbers<double>(*object, "accel_time"), numbers<double>(*object, "cpu_time")};
  problem.memory = numbers<double>(*object, "memory");
  problem.outCost = numbers<double>(*object, "out_cost");
  problem.color = numbers<int64_t>(*object, "color");
  for (int mark : numbers<int>(*object, "backward"))
    instance.isBackward.push_back(mark != 0);
  instance.isBackward.resize(problem.nodes(), false);
  for (int allowed : numbers<int>(*object, "accel_ok"))
    if (!allowed)
      return failf(ExitCode::Unreadable,
                   "{}: expected nodes that may all run on accelerators, got one that may not",
                   path);
  for (const llvm::json::Value &edge : *edges)
    if (const llvm::json::Array *ends = edge.getAsArray(); ends && ends->size() == 2)
      problem.edges.emplace_back(static_cast<uint32_t>(valueOr((*ends)[0].getAsInteger(), -1)),
                                 static_cast<uint32_t>(valueOr((*ends)[1].getAsInteger(), -1)));
  const size_t n = problem.nodes();
  for (auto [source, target] : problem.edges)
    if (source >= n || target >= n)
      return failf(ExitCode::Unreadable, "{}: expected edges between {} nodes, got {} -> {}", path,
                   n, source, target);
  if (!problem.color.empty() && problem.color.size() != n)
    return failf(ExitCode::Unreadable, "{}: expected a colour for each of {} nodes, got {}", path,
                 n, problem.color.size());
  problem.order = orderOf(problem, instance.isBackward);
  return instance;
}

} // namespace pipec
