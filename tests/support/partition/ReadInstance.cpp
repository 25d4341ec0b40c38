#include "tests/support/partition/ReadInstance.h"

#include "tests/support/JsonFile.h"

namespace pipec {

namespace {

/// A number array; an absent one is empty.
template <typename T> std::vector<T> numbers(const llvm::json::Object &object, const char *key) {
  std::vector<T> result;
  if (const llvm::json::Array *array = object.getArray(key))
    for (const llvm::json::Value &value : *array)
      result.push_back(static_cast<T>(value.getAsNumber().getValueOr(-1)));
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
  instance.name = object->getString("name").getValueOr("").str();
  instance.nodeId = numbers<int64_t>(*object, "node_id");
  PartitionProblem &problem = instance.problem;
  DeviceKind accelerator, cpu;
  accelerator.name = "accelerator";
  accelerator.count = static_cast<size_t>(object->getInteger("accelerators").getValueOr(0));
  accelerator.memory = object->getNumber("accel_memory").getValueOr(kUnlimited);
  cpu.name = "cpu";
  cpu.count = static_cast<size_t>(object->getInteger("cpus").getValueOr(0));
  cpu.transferScale = 0;
  problem.kinds = {accelerator, cpu};
  problem.time = {numbers<double>(*object, "accel_time"), numbers<double>(*object, "cpu_time")};
  problem.memory = numbers<double>(*object, "memory");
  problem.outCost = numbers<double>(*object, "out_cost");
  for (int mark : numbers<int>(*object, "backward"))
    problem.backward.push_back(mark != 0);
  problem.color = numbers<int64_t>(*object, "color");
  std::vector<int> allowed = numbers<int>(*object, "accel_ok");
  for (size_t node = 0; node < allowed.size() && node < problem.time[0].size(); ++node)
    if (!allowed[node])
      problem.time[0][node] = kUnlimited;
  for (const llvm::json::Value &edge : *edges)
    if (const llvm::json::Array *ends = edge.getAsArray(); ends && ends->size() == 2)
      problem.edges.emplace_back(static_cast<uint32_t>((*ends)[0].getAsInteger().getValueOr(-1)),
                                 static_cast<uint32_t>((*ends)[1].getAsInteger().getValueOr(-1)));
  return instance;
}

} // namespace pipec
