#include "compiler/emit/ModuleBuilder.h"

#include "compiler/emit/RoundTrip.h"
#include "ir/GraphVerify.h"
#include "ir/support/Try.h"
#include "llvm/ADT/StringExtras.h"

#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

namespace {

/// With source lines the bytes would depend on the path of the author's file.
void stripSourceRanges(torch::jit::Block &block) {
  for (torch::jit::Node *node : block.nodes()) {
    node->setSourceRange(torch::jit::SourceRange());
    for (torch::jit::Block *inner : node->blocks())
      stripSourceRanges(*inner);
    if (node->hasAttribute(c10::attr::Subgraph))
      stripSourceRanges(*node->g(c10::attr::Subgraph)->block());
  }
}

/// Modules may have names that no class can have: "block 1", "a/b".
std::string identifier(llvm::StringRef name) {
  std::string text = name.str();
  for (char &c : text)
    if (!llvm::isAlnum(c))
      c = '_';
  return text;
}

} // namespace

ModuleBuilder::ModuleBuilder(std::string className, bool training)
    : className_(std::move(className)), training_(training),
      unit_(std::make_shared<torch::jit::CompilationUnit>()), module_(makeModule(className_)) {}

torch::jit::Module ModuleBuilder::makeModule(const std::string &name) {
  auto type = c10::ClassType::create(c10::QualifiedName(name), unit_, /*is_module=*/true);
  unit_->register_type(type);
  torch::jit::Module module(unit_, type);
  module.register_attribute("training", c10::BoolType::get(), training_);
  return module;
}

std::string ModuleBuilder::freshClassName(const std::string &wish) {
  std::string name = wish;
  for (int number = 2; unit_->get_type(c10::QualifiedName(name)); ++number)
    name = wish + "_" + std::to_string(number);
  return name;
}

torch::jit::Module ModuleBuilder::holderOf(llvm::StringRef path, std::string &leaf) {
  torch::jit::Module holder = module_;
  std::string name = className_;
  for (auto [head, tail] = path.split('.'); !tail.empty(); std::tie(head, tail) = tail.split('.')) {
    name += "_" + identifier(head);
    if (!holder.hasattr(head.str()))
      holder.register_module(head.str(), makeModule(freshClassName(name)));
    holder = holder.attr(head.str()).toModule();
    path = tail;
  }
  leaf = path.str();
  return holder;
}

void ModuleBuilder::registerAs(const std::string &path, AttributeKind kind, bool isPlain,
                               const c10::IValue &value, const c10::TypePtr &type) {
  std::string leaf;
  torch::jit::Module holder = holderOf(path, leaf);
  if (holder.hasattr(leaf))
    return;
  if (isPlain && type->kind() == c10::TypeKind::TensorType)
    holder.register_attribute(leaf, c10::TensorType::get(), value); // without the type's sizes
  else if (isPlain)
    holder.register_attribute(leaf, type, value);
  else if (kind == AttributeKind::Parameter)
    holder.register_parameter(leaf, value.toTensor(), /*is_buffer=*/false);
  else if (value.isTensor() && kind == AttributeKind::Buffer &&
           type->kind() == c10::TypeKind::OptionalType)
    holder.register_attribute(leaf, type, value, /*is_param=*/false,
                              /*is_buffer=*/true); // may become None
  else if (value.isTensor() && kind == AttributeKind::Buffer)
    holder.register_buffer(leaf, value.toTensor());
  else
    holder.register_attribute(leaf, type, value);
}

std::shared_ptr<torch::jit::Graph> ModuleBuilder::beginMethod() {
  auto graph = std::make_shared<torch::jit::Graph>();
  graph->addInput("self")->setType(module_.type());
  names_ = {};
  holders_ = {{"", graph->inputs()[0]}};
  return graph;
}

torch::jit::Value *ModuleBuilder::addInput(torch::jit::Graph &graph, llvm::StringRef name,
                                           const c10::TypePtr &type) {
  torch::jit::Value *value = graph.addInput(names_.next(name));
  value->setType(type);
  return value;
}

torch::jit::Value *ModuleBuilder::loadAttribute(torch::jit::Graph &graph, llvm::StringRef path) {
  auto [holder, leaf] = path.contains('.') ? path.rsplit('.') : std::pair(llvm::StringRef(), path);
  return graph.insertGetAttr(holderValue(graph, holder), leaf.str());
}

void ModuleBuilder::storeAttribute(torch::jit::Graph &graph, llvm::StringRef path,
                                   torch::jit::Value *value) {
  auto [holder, leaf] = path.contains('.') ? path.rsplit('.') : std::pair(llvm::StringRef(), path);
  graph.insertNode(graph.create(c10::prim::SetAttr, {holderValue(graph, holder), value}, 0))
      ->s_(c10::attr::name, leaf.str());
}

llvm::Expected<torch::jit::Function *>
ModuleBuilder::finish(const std::string &method, const std::shared_ptr<torch::jit::Graph> &graph,
                      torch::jit::Value *result) {
  graph->registerOutput(result);
  stripSourceRanges(*graph->block());
  nameResultsInOrder(*graph);
  TRY(lintGraph(*graph));
  torch::jit::Function *function =
      unit_->create_function(c10::QualifiedName(*module_.type()->name(), method), graph);
  module_.type()->addMethod(function);
  return function;
}

torch::jit::Value *ModuleBuilder::holderValue(torch::jit::Graph &graph, llvm::StringRef path) {
  auto known = holders_.find(path.str());
  if (known == holders_.end())
    known = holders_.emplace(path.str(), loadAttribute(graph, path)).first;
  return known->second;
}

} // namespace pipec
