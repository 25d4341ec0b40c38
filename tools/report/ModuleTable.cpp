#include "tools/report/ModuleTable.h"

#include "ir/support/Quantities.h"
#include "tools/report/Table.h"

#include <fmt/format.h>

namespace pipec {

namespace {

int64_t costOf(const ModuleCosts &costs, const std::string &path) {
  auto found = costs.find(path);
  return found == costs.end() ? 0 : found->second;
}

} // namespace

void printModules(llvm::raw_ostream &out, const std::vector<ModuleNode> &modules,
                  const std::optional<ModuleCosts> &costs) {
  std::vector<Table::Column> columns = {{"module"},
                                        {"type"},
                                        {"parameters", Table::Right},
                                        {"bytes", Table::Right},
                                        {"buffers", Table::Right}};
  if (costs)
    columns.push_back({"cost", Table::Right});
  Table table(columns);
  for (const ModuleNode &node : modules) {
    std::string name = node.path.empty() ? "(model)" : node.path.substr(node.path.rfind('.') + 1);
    std::vector<std::string> row = {std::string(2 * node.depth, ' ') + name, node.type,
                                    formatCount(node.parameters), formatBytes(node.parameterBytes),
                                    node.bufferBytes ? formatBytes(node.bufferBytes) : ""};
    int64_t cost = costs ? costOf(*costs, node.path) : 0;
    if (cost)
      row.push_back(fmt::format("{:.1f} %", 100.0 * double(cost) / double(costOf(*costs, ""))));
    table.addRow(std::move(row));
  }
  table.print(out);
}

llvm::json::Array modulesJson(const std::vector<ModuleNode> &modules,
                              const std::optional<ModuleCosts> &costs) {
  llvm::json::Array rows;
  for (const ModuleNode &node : modules) {
    llvm::json::Object row{{"name", node.path},
                           {"type", node.type},
                           {"parameters", node.parameters},
                           {"own_parameters", node.ownParameters},
                           {"parameter_bytes", node.parameterBytes},
                           {"buffer_bytes", node.bufferBytes},
                           {"training", node.training},
                           {"methods", llvm::json::Array(node.methods)}};
    if (costs)
      row["cost_flops"] = costOf(*costs, node.path);
    rows.push_back(std::move(row));
  }
  return rows;
}

} // namespace pipec
