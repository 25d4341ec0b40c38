#include "tools/report/ModuleTree.h"

#include "ir/TensorBytes.h"
#include "ir/TorchError.h"
#include "ir/TrainingModules.h"
#include "ir/support/Try.h"
#include "ir/torchfile/TorchFile.h"

#include <set>

namespace pipec {
namespace {

using Seen = std::set<const void *>;

/// "Linear" of "__torch__.torch.nn.modules.linear.___torch_mangle_3.Linear".
std::string shortTypeName(const torch::jit::Module &module) {
  std::string name = module.type()->name() ? module.type()->name()->name() : "";
  return name.empty() ? "?" : name;
}

class Walk {
public:
  void visit(const torch::jit::Module &module, const std::string &path, size_t depth) {
    ModuleNode node;
    node.path = path;
    node.type = shortTypeName(module);
    node.depth = depth;
    node.training =
        module.hasattr("training") && module.attr("training").isBool() && module.is_training();
    for (const torch::jit::Method &method : module.get_methods())
      node.methods.push_back(method.name());
    measure(module, node);
    nodes_.push_back(std::move(node));
    for (const auto &child : module.named_children())
      visit(child.value, path.empty() ? child.name : path + "." + child.name, depth + 1);
  }

  std::vector<ModuleNode> take() { return std::move(nodes_); }

private:
  /// A tensor with two names counts once per measured module.
  static void measure(const torch::jit::Module &module, ModuleNode &node) {
    Seen seen, own;
    for (const auto &parameter : module.named_parameters(/*recurse=*/true)) {
      if (!seen.insert(parameter.value.unsafeGetTensorImpl()).second)
        continue;
      node.parameters += parameter.value.numel();
      node.parameterBytes += byteCount(parameter.value);
    }
    for (const auto &parameter : module.named_parameters(/*recurse=*/false))
      if (own.insert(parameter.value.unsafeGetTensorImpl()).second)
        node.ownParameters += parameter.value.numel();
    for (const auto &buffer : module.named_buffers(/*recurse=*/true))
      if (seen.insert(buffer.value.unsafeGetTensorImpl()).second)
        node.bufferBytes += byteCount(buffer.value);
  }

  std::vector<ModuleNode> nodes_;
};

} // namespace

llvm::Expected<ModuleTree> readModuleTree(const std::string &path, const std::string &method) {
  torch::jit::Module module = TRY(loadMapped(path));
  return guardTorch(ExitCode::Unreadable, path + ": listing the modules", [&] {
    Walk walk;
    walk.visit(module, "", 0);
    ModuleTree tree{walk.take(), {}};
    TrainingModules found;
    if (module.find_method(method))
      found = trainingModules(module, method);
    else // a class without forward: any of its methods may be compiled
      for (const torch::jit::Method &other : module.get_methods())
        found.add(trainingModules(module, other.name()));
    tree.trainingNotes = found.notes("pipe-compile --infer compiles them in eval mode");
    return tree;
  });
}

} // namespace pipec
