#include "tests/support/piper/ReadPiper.h"

#include "ir/support/Llvm.h"
#include "tests/support/JsonFile.h"

namespace pipec {

namespace {

/// The bandwidth of the authors' experiments, bytes per unit of the files' times.
constexpr double kPiperBandwidth = 25.0 * (1 << 30);

std::map<uint32_t, double> bytesByNode(const llvm::json::Value &value,
                                       const std::map<int64_t, uint32_t> &index) {
  std::map<uint32_t, double> bytes;
  if (const llvm::json::Object *object = value.getAsObject())
    for (const auto &[key, number] : *object) {
      int64_t id = 0;
      if (!llvm::StringRef(key).getAsInteger(10, id) && index.count(id))
        bytes[index.at(id)] = valueOr(number.getAsNumber(), 0);
    }
  return bytes;
}

bool readVariant(const llvm::json::Value &value, const std::map<int64_t, uint32_t> &index,
                 HybridVariant &variant) {
  const llvm::json::Array *row = value.getAsArray();
  if (!row || row->size() != 7)
    return false;
  auto number = [&](size_t i) { return valueOr((*row)[i].getAsNumber(), -1); };
  variant.name = valueOr((*row)[0].getAsString(), "").str();
  variant.time = number(1);
  variant.parameterBytes = number(2);
  variant.bytesInFlight = number(3);
  variant.fixedBytes = number(4);
  variant.syncForward = bytesByNode((*row)[5], index);
  variant.syncBackward = bytesByNode((*row)[6], index);
  return true;
}

} // namespace

llvm::Expected<HybridProblem> readPiper(const std::string &path) {
  llvm::Expected<llvm::json::Value> value = readJsonFile(path);
  if (!value)
    return value.takeError();
  auto malformed = [&] { return failf(ExitCode::Unreadable, "{}: expected an instance", path); };
  const llvm::json::Object *object = value->getAsObject();
  const llvm::json::Array *nodes = object ? object->getArray("nodes") : nullptr;
  const llvm::json::Array *edges = object ? object->getArray("edges") : nullptr;
  if (!nodes || !edges)
    return malformed();
  HybridProblem problem;
  problem.bandwidth = kPiperBandwidth;
  problem.microBatches = valueOr(object->getInteger("microbatches"), 0);
  std::map<int64_t, uint32_t> index;
  for (const llvm::json::Value &node : *nodes) {
    const int64_t id = node.getAsObject() ? valueOr(node.getAsObject()->getInteger("id"), -1) : -1;
    index.emplace(id, static_cast<uint32_t>(problem.nodes.size()));
    problem.nodes.emplace_back().id = id;
  }
  for (size_t n = 0; n < nodes->size(); ++n) {
    const llvm::json::Object *degrees =
        (*nodes)[n].getAsObject() ? (*nodes)[n].getAsObject()->getObject("tp") : nullptr;
    if (!degrees)
      return malformed();
    for (const auto &[key, list] : *degrees) {
      uint32_t degree = 0;
      if (llvm::StringRef(key).getAsInteger(10, degree) || !list.getAsArray())
        return malformed();
      for (const llvm::json::Value &row : *list.getAsArray())
        if (!readVariant(row, index, problem.nodes[n].variants[degree].emplace_back()))
          return malformed();
    }
  }
  for (const llvm::json::Value &row : *edges) {
    const llvm::json::Array *ends = row.getAsArray();
    if (!ends || ends->size() != 3)
      return malformed();
    auto end = [&](size_t i) { return index.find(valueOr((*ends)[i].getAsInteger(), -1)); };
    if (end(0) == index.end() || end(1) == index.end())
      return malformed();
    problem.edges.push_back({end(0)->second, end(1)->second, valueOr((*ends)[2].getAsNumber(), 0)});
  }
  return problem;
}

std::string piperPlanText(const HybridProblem &problem, const std::vector<HybridStage> &stages) {
  llvm::json::Array rows;
  for (const HybridStage &stage : stages) {
    llvm::json::Array nodes;
    llvm::json::Object variants;
    for (size_t i = 0; i < stage.nodes.size(); ++i) {
      const HybridNode &node = problem.nodes[stage.nodes[i]];
      nodes.push_back(node.id);
      variants[std::to_string(node.id)] =
          node.variants.at(stage.tensorDegree)[stage.variant[i]].name;
    }
    rows.push_back(
        llvm::json::Object{{"nodes", std::move(nodes)},
                           {"dataParallelDegree", stage.dataDegree},
                           {"tensorParallelDegree", static_cast<int64_t>(stage.tensorDegree)},
                           {"TMPCids", std::move(variants)}});
  }
  return printJson(llvm::json::Object{{"stages", std::move(rows)}});
}

} // namespace pipec
