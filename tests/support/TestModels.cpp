#include "tests/support/TestModels.h"

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/ir/irparser.h>
#include <torch/csrc/jit/serialization/import.h>

#include <map>
#include <sstream>

namespace pipec::test {

namespace {

using torch::jit::Block;
using torch::jit::Node;
using torch::jit::Value;

size_t countIn(Block *block, c10::Symbol kind) {
  size_t count = 0;
  for (Node *node : block->nodes()) {
    count += node->kind() == kind;
    for (Block *inner : node->blocks())
      count += countIn(inner, kind);
  }
  return count;
}

std::vector<Node *> nodesOf(const Model &model, const char *kind) {
  std::vector<Node *> nodes;
  for (Node *node : model.graph->nodes())
    if (node->kind() == c10::Symbol::fromQualString(kind))
      nodes.push_back(node);
  return nodes;
}

std::string expressionOf(Node *node, unsigned depth) {
  std::string text = node->kind().toQualString();
  if (depth == 0 || node->inputs().empty())
    return text;
  std::string operands;
  for (Value *input : node->inputs())
    operands += (operands.empty() ? "" : ", ") + expressionOf(input->node(), depth - 1);
  return text + "(" + operands + ")";
}

/// "a.b" goes to the submodule a as b; submodules have no submodules.
void registerAll(torch::jit::Module &module, const SavedModule &saved) {
  std::map<std::string, torch::jit::Module> children;
  auto add = [&](const std::string &name, const at::Tensor &tensor, bool isBuffer) {
    size_t dot = name.find('.');
    if (dot == std::string::npos) {
      isBuffer ? module.register_buffer(name, tensor)
               : module.register_parameter(name, tensor, false);
      return;
    }
    std::string child = name.substr(0, dot), rest = name.substr(dot + 1);
    torch::jit::Module &holder = children.try_emplace(child, "__torch__." + child).first->second;
    isBuffer ? holder.register_buffer(rest, tensor)
             : holder.register_parameter(rest, tensor, false);
  };
  for (const auto &[name, tensor] : saved.parameters)
    add(name, tensor, false);
  for (const auto &[name, tensor] : saved.buffers)
    add(name, tensor, true);
  for (const auto &[name, child] : children)
    module.register_module(name, child);
}

} // namespace

Model modelOf(const std::string &text, const std::vector<int64_t> &storages) {
  Model model;
  model.graph = std::make_shared<torch::jit::Graph>();
  std::unordered_map<std::string, torch::jit::Value *> values;
  torch::jit::parseIR(text, model.graph.get(), values);
  for (auto &[name, value] :
       values) { // the parser numbers results anew; names make the test readable
    if (name.find_first_not_of("0123456789") != std::string::npos)
      value->setDebugName(name);
  }
  const size_t inputs = model.graph->inputs().size() - storages.size();
  for (size_t i = 0; i < inputs; ++i) {
    InputSpec input;
    input.name = model.graph->inputs()[i]->debugName();
    model.signature.inputs.push_back(input);
  }
  for (size_t i = 0; i < storages.size(); ++i) {
    Attribute attribute;
    attribute.name = model.graph->inputs()[inputs + i]->debugName();
    attribute.storage = storages[i];
    model.attributes.push_back(attribute);
  }
  return model;
}

Value *valueOf(const Model &model, const std::string &name) {
  auto found = model.graph->debugNames().find(name);
  return found == model.graph->debugNames().end() ? nullptr : found->second;
}

void lint(const Model &model) { model.graph->lint(); }

std::string textOf(const Model &model) { return model.graph->toString(false); }

size_t countNodes(const Model &model, const char *kind) {
  return countIn(model.graph->block(), c10::Symbol::fromQualString(kind));
}

std::vector<size_t> resultCounts(const Model &model, const char *kind) {
  std::vector<size_t> counts;
  for (Node *node : nodesOf(model, kind))
    counts.push_back(node->outputs().size());
  return counts;
}

std::vector<size_t> operandCounts(const Model &model, const char *kind) {
  std::vector<size_t> counts;
  for (Node *node : nodesOf(model, kind))
    counts.push_back(node->inputs().size());
  return counts;
}

std::vector<std::string> expressions(const Model &model, const char *kind, unsigned depth) {
  std::vector<std::string> texts;
  for (Node *node : nodesOf(model, kind))
    texts.push_back(expressionOf(node, depth));
  return texts;
}

bool returnsInput(const Model &model, size_t output, size_t input) {
  return model.graph->outputs()[output] == model.graph->inputs()[input];
}

static torch::jit::Module built(const SavedModule &saved) {
  torch::jit::Module module("__torch__." + saved.name);
  registerAll(module, saved);
  for (const auto &[name, child] : saved.modules)
    module.register_module(name, built(child));
  if (!saved.source.empty())
    module.define(saved.source);
  return module;
}

void saveTo(std::ostream &out, const SavedModule &saved) { built(saved).save(out); }

std::string bytesOf(const SavedModule &saved) {
  std::ostringstream out;
  saveTo(out, saved);
  return out.str();
}

void loadAndSave(const std::string &path) {
  std::ostringstream out;
  torch::jit::load(path).save(out);
}

} // namespace pipec::test
