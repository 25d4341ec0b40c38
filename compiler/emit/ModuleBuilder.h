// What every file that the compiler writes is made of: a hierarchy of modules that hold weights,
// and methods.
#pragma once

#include "compiler/emit/RoundTrip.h"
#include "ir/GraphVerify.h"
#include "ir/artifact/ArgumentNames.h"
#include "llvm/ADT/StringExtras.h"

#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>

#include <map>
#include <stdexcept>

namespace pipec {

/// Source lines would make the bytes depend on where the author's file lay.
inline void stripSourceRanges(torch::jit::Block &block) {
  for (torch::jit::Node *node : block.nodes()) {
    node->setSourceRange(torch::jit::SourceRange());
    for (torch::jit::Block *inner : node->blocks())
      stripSourceRanges(*inner);
    if (node->hasAttribute(c10::attr::Subgraph))
      stripSourceRanges(*node->g(c10::attr::Subgraph)->block());
  }
}

/// What the modules of one file have in common: the hierarchy that weights are registered in, and
/// methods.
class ModuleBuilder {
public:
  /// training: of the flags that every module gets.
  ModuleBuilder(std::string className, bool training)
      : className_(std::move(className)), training_(training),
        unit_(std::make_shared<torch::jit::CompilationUnit>()), module_(makeModule(className_)) {}

protected:
  torch::jit::Module makeModule(const std::string &name) {
    auto type = c10::ClassType::create(c10::QualifiedName(name), unit_, /*is_module=*/true);
    unit_->register_type(type);
    torch::jit::Module module(unit_, type);
    module.register_attribute("training", c10::BoolType::get(), training_);
    return module;
  }

  /// Modules may be called what no class may: "block 1", "a/b".
  static std::string identifier(llvm::StringRef name) {
    std::string text = name.str();
    for (char &c : text)
      if (!llvm::isAlnum(c))
        c = '_';
    return text;
  }

  /// a.b_c and a_b.c are two modules.
  std::string freshClassName(const std::string &wish) {
    std::string name = wish;
    for (int number = 2; unit_->get_type(c10::QualifiedName(name)); ++number)
      name = wish + "_" + std::to_string(number);
    return name;
  }

  /// The module that holds attribute `path`, made on the way. Its last component stays in `leaf`.
  torch::jit::Module holderOf(llvm::StringRef path, std::string &leaf) {
    torch::jit::Module holder = module_;
    std::string name = className_;
    for (auto [head, tail] = path.split('.'); !tail.empty();
         std::tie(head, tail) = tail.split('.')) {
      name += "_" + identifier(head);
      if (!holder.hasattr(head.str()))
        holder.register_module(head.str(), makeModule(freshClassName(name)));
      holder = holder.attr(head.str()).toModule();
      path = tail;
    }
    leaf = path.str();
    return holder;
  }

  void registerAs(const std::string &path, AttributeKind kind, const c10::IValue &value,
                  const c10::TypePtr &type) {
    std::string leaf;
    torch::jit::Module holder = holderOf(path, leaf);
    if (holder.hasattr(leaf))
      return;
    if (kind == AttributeKind::Parameter)
      holder.register_parameter(leaf, value.toTensor(), /*is_buffer=*/false);
    else if (value.isTensor() && kind == AttributeKind::Buffer)
      holder.register_buffer(leaf, value.toTensor());
    else
      holder.register_attribute(leaf, type, value);
  }

  /// A new method's graph; its input is the module.
  std::shared_ptr<torch::jit::Graph> beginMethod() {
    auto graph = std::make_shared<torch::jit::Graph>();
    graph->addInput("self")->setType(module_.type());
    names_ = {};
    holders_ = {{"", graph->inputs()[0]}};
    return graph;
  }

  torch::jit::Value *addInput(torch::jit::Graph &graph, llvm::StringRef name,
                              const c10::TypePtr &type) {
    torch::jit::Value *value = graph.addInput(names_.next(name));
    value->setType(type);
    return value;
  }

  torch::jit::Value *loadAttribute(torch::jit::Graph &graph, llvm::StringRef path) {
    auto [holder, leaf] =
        path.contains('.') ? path.rsplit('.') : std::pair(llvm::StringRef(), path);
    return graph.insertGetAttr(holderValue(graph, holder), leaf.str());
  }

  void storeAttribute(torch::jit::Graph &graph, llvm::StringRef path, torch::jit::Value *value) {
    auto [holder, leaf] =
        path.contains('.') ? path.rsplit('.') : std::pair(llvm::StringRef(), path);
    graph.insertNode(graph.create(c10::prim::SetAttr, {holderValue(graph, holder), value}, 0))
        ->s_(c10::attr::name, leaf.str());
  }

  torch::jit::Function *finish(const std::string &method,
                               const std::shared_ptr<torch::jit::Graph> &graph,
                               torch::jit::Value *result) {
    graph->registerOutput(result);
    stripSourceRanges(*graph->block());
    nameResultsInOrder(*graph);
    if (llvm::Error error = lintGraph(*graph))
      throw std::runtime_error(describe(std::move(error)).message);
    torch::jit::Function *function =
        unit_->create_function(c10::QualifiedName(*module_.type()->name(), method), graph);
    module_.type()->addMethod(function);
    return function;
  }

  std::string className_;
  bool training_;
  std::shared_ptr<torch::jit::CompilationUnit> unit_;
  torch::jit::Module module_;

private:
  /// The module of this path; each is read once in a method.
  torch::jit::Value *holderValue(torch::jit::Graph &graph, llvm::StringRef path) {
    auto known = holders_.find(path.str());
    if (known == holders_.end())
      known = holders_.emplace(path.str(), loadAttribute(graph, path)).first;
    return known->second;
  }

  // Of the method that is being made:
  ArgumentNames names_;                                // of its arguments
  std::map<std::string, torch::jit::Value *> holders_; // modules that were read, by path
};

} // namespace pipec
