#include "tools/report/WholeTree.h"

#include "llvm/ADT/STLExtras.h"
#include "tools/report/Markup.h"
#include "tools/report/StageModules.h"

#include <fmt/format.h>

namespace pipec {
namespace {

/// Calls `visit` for the model and for every module on the way to `path`, the last one with true.
template <typename Visit> void alongPath(WholeModule &model, llvm::StringRef path, Visit visit) {
  WholeModule *node = &model;
  visit(*node, path.empty());
  while (!path.empty()) {
    auto [name, rest] = path.split('.');
    auto found = llvm::find_if(
        node->children, [&, part = name](const WholeModule &child) { return child.name == part; });
    if (found == node->children.end()) {
      node->children.push_back({name.str(), {}, 0, 0, 0, {}});
      found = std::prev(node->children.end());
    }
    node = &*found;
    path = rest;
    visit(*node, path.empty());
  }
}

std::string stagesText(const WholeModule &module) {
  if (module.stages.empty())
    return "";
  const size_t first = module.stages.front(), last = module.stages.back();
  if (last - first + 1 == module.stages.size())
    return first == last ? std::to_string(first) : fmt::format("{} to {}", first, last);
  return fmt::format("{}", fmt::join(module.stages, ", "));
}

class TreeWriter {
public:
  explicit TreeWriter(int64_t wholeNs) : wholeNs_(wholeNs) {}

  void write(const WholeModule &module, size_t depth) {
    // Pages of deep models stay readable, and browsers stay alive.
    constexpr size_t kDeepest = 64;
    const bool leaf = module.children.empty() || depth > kDeepest;
    if (leaf) {
      html += "<div class=\"row\">" + cells(module, depth) + "</div>\n";
      return;
    }
    html += fmt::format("<details{}><summary class=\"row\">{}</summary>\n",
                        depth < 2 ? " open" : "", cells(module, depth));
    for (const WholeModule &child : module.children)
      write(child, depth + 1);
    html += "</details>\n";
  }

  std::string html;

private:
  std::string cells(const WholeModule &module, size_t depth) const {
    auto bytes = [](int64_t number) { return number ? formatBytes(number) : std::string(); };
    std::string text =
        fmt::format("<span class=\"name\" style=\"padding-left:{}em\">{}</span><span>{}</span>"
                    "<span class=\"n\">{}</span><span class=\"n\">{}</span>",
                    1.2 * double(std::min<size_t>(depth, 24)),
                    module.name.empty() && depth == 0 ? "(model)" : markupEscaped(module.name),
                    stagesText(module), bytes(module.parameterBytes), bytes(module.otherBytes));
    if (wholeNs_ == 0)
      return text;
    const double part = 100.0 * double(module.costNs) / double(wholeNs_);
    return text + fmt::format("<span class=\"n\">{}</span><span class=\"part\">"
                              "<i style=\"width:{:.1f}%\"></i></span>",
                              module.costNs
                                  ? fmt::format("{}, {:.1f} %", formatDuration(module.costNs), part)
                                  : std::string(),
                              part);
  }

  int64_t wholeNs_ = 0;
};

} // namespace

WholeModule wholeTree(const Plan &plan, const std::optional<CostTable> &costs) {
  WholeModule model;
  if (costs)
    for (const CostRow &row : costs->rows)
      alongPath(model, row.module,
                [&](WholeModule &module, bool) { module.costNs += row.forwardNs; });
  for (size_t s = 0; s < plan.stages.size(); ++s)
    for (const StageModuleRow &row : modulesHeldBy(plan.stages[s]))
      alongPath(model, row.path, [&](WholeModule &module, bool last) {
        if (!last)
          return;
        if (module.stages.empty() || module.stages.back() != s)
          module.stages.push_back(s);
        module.parameterBytes += row.parameterBytes;
        module.otherBytes += row.otherBytes;
      });
  return model;
}

std::string htmlTree(const WholeModule &model) {
  TreeWriter writer(model.costNs);
  writer.write(model, 0);
  return fmt::format("<div class=\"tree{}\">\n<div class=\"row heads\"><span>module</span>"
                     "<span>stages</span><span class=\"n\">parameters</span>"
                     "<span class=\"n\">buffers</span>{}</div>\n{}</div>\n",
                     model.costNs ? " costs" : "",
                     model.costNs ? "<span class=\"n\">cost</span><span></span>" : "", writer.html);
}

} // namespace pipec
