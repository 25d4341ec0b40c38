#include "tools/report/StageModules.h"

#include "tools/report/Table.h"

namespace pipec {

namespace {

/// Children keep the order in which the stage uses them.
struct Tree {
  std::string path;
  int64_t parameterBytes = 0, otherBytes = 0;
  std::vector<Tree> children;

  Tree &child(const std::string &childPath) {
    for (Tree &known : children)
      if (known.path == childPath)
        return known;
    children.push_back({childPath, 0, 0, {}});
    return children.back();
  }

  void add(const StageAttribute &attribute, size_t from) {
    (attribute.kind == AttributeKind::Parameter ? parameterBytes : otherBytes) += attribute.bytes;
    size_t dot = attribute.name.find('.', from);
    if (dot != std::string::npos) // the last part is the attribute itself
      child(attribute.name.substr(0, dot)).add(attribute, dot + 1);
  }

  void list(size_t depth, std::vector<StageModuleRow> &rows) const {
    rows.push_back({path, depth, parameterBytes, otherBytes});
    for (const Tree &inner : children)
      inner.list(depth + 1, rows);
  }
};

std::string bytesCell(int64_t bytes) { return bytes ? formatBytes(bytes) : ""; }

} // namespace

std::vector<StageModuleRow> modulesHeldBy(const StagePlan &stage) {
  Tree tree;
  for (const StageAttribute &attribute : stage.attributes)
    if (!attribute.channel)
      tree.add(attribute, 0);
  std::vector<StageModuleRow> rows;
  tree.list(0, rows);
  return rows;
}

void printStageModules(llvm::raw_ostream &out, const Plan &plan) {
  printHeading(out, "modules");
  Table table({{"module"}, {"parameters", Table::Right}, {"buffers", Table::Right}});
  for (size_t s = 0; s < plan.stages.size(); ++s)
    for (const StageModuleRow &row : modulesHeldBy(plan.stages[s])) {
      std::string name = row.path.empty() ? "stage " + std::to_string(s)
                                          : row.path.substr(row.path.rfind('.') + 1);
      table.addRow({std::string(2 * row.depth, ' ') + name, bytesCell(row.parameterBytes),
                    bytesCell(row.otherBytes)});
    }
  table.print(out);
}

llvm::json::Array stageModulesJson(const Plan &plan) {
  llvm::json::Array stages;
  for (const StagePlan &stage : plan.stages) {
    llvm::json::Array rows;
    for (const StageModuleRow &row : modulesHeldBy(stage))
      rows.push_back(llvm::json::Object{{"name", row.path},
                                        {"parameter_bytes", row.parameterBytes},
                                        {"other_bytes", row.otherBytes}});
    stages.push_back(std::move(rows));
  }
  return stages;
}

} // namespace pipec
