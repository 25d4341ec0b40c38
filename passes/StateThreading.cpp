#include "passes/StateThreading.h"

#include "ir/NodeInfo.h"

#include <torch/csrc/jit/ir/ir.h>

#include <set>

namespace pipec {

namespace {

using torch::jit::Block;
using torch::jit::Node;
using torch::jit::Value;
using State = std::map<std::string, Value *>;

std::string pathOf(Node *node, const ModulePaths &paths, bool &known) {
  return attributePath(node->input(0), node->s(c10::attr::name), paths, known);
}

void writtenIn(Block &block, const ModulePaths &paths, std::set<std::string> &written) {
  for (Node *node : block.nodes()) {
    bool known = false;
    if (node->kind() == c10::prim::SetAttr)
      if (std::string path = pathOf(node, paths, known); known)
        written.insert(path);
    for (Block *inner : node->blocks())
      writtenIn(*inner, paths, written);
  }
}

llvm::Error threadIf(Node *node, const ModulePaths &paths, State &current) {
  std::set<std::string> written;
  for (Block *branch : node->blocks())
    writtenIn(*branch, paths, written);
  std::vector<State> exits;
  for (Block *branch : node->blocks()) {
    State inside = current;
    if (llvm::Error error = threadState(*branch, paths, inside))
      return error;
    exits.push_back(std::move(inside));
  }
  for (const std::string &path : written) {
    for (size_t i = 0; i < exits.size(); ++i)
      node->blocks()[i]->registerOutput(exits[i][path]);
    Value *merged = node->addOutput();
    merged->setType(current[path]->type());
    current[path] = merged;
  }
  return llvm::Error::success();
}

llvm::Error threadLoop(Node *node, const ModulePaths &paths, State &current) {
  Block *body = node->blocks()[0];
  std::set<std::string> written;
  writtenIn(*body, paths, written);
  State inside = current;
  for (const std::string &path : written) {
    node->addInput(current[path]);
    Value *carried = body->addInput();
    carried->setType(current[path]->type());
    inside[path] = carried;
  }
  if (llvm::Error error = threadState(*body, paths, inside))
    return error;
  for (const std::string &path : written) {
    body->registerOutput(inside[path]);
    Value *result = node->addOutput();
    result->setType(current[path]->type());
    current[path] = result;
  }
  return llvm::Error::success();
}

} // namespace

std::string attributePath(Value *object, const std::string &name, const ModulePaths &paths,
                          bool &known) {
  auto found = paths.find(object);
  known = found != paths.end();
  if (!known)
    return "";
  return found->second.empty() ? name : found->second + "." + name;
}

llvm::Error threadState(Block &block, const ModulePaths &paths, State &current) {
  for (auto it = block.nodes().begin(); it != block.nodes().end();) {
    Node *node = *it;
    ++it;
    if (node->kind() == c10::prim::If || node->kind() == c10::prim::Loop) {
      if (llvm::Error error = node->kind() == c10::prim::If ? threadIf(node, paths, current)
                                                            : threadLoop(node, paths, current))
        return error;
      continue;
    }
    bool known = false;
    if (node->kind() == c10::prim::GetAttr) {
      auto value = current.find(pathOf(node, paths, known));
      if (!known || value == current.end())
        continue;
      node->output()->replaceAllUsesWith(value->second);
      node->destroy();
    } else if (node->kind() == c10::prim::SetAttr) {
      auto value = current.find(pathOf(node, paths, known));
      if (!known || value == current.end())
        continue;
      value->second = node->input(1);
      node->destroy();
    }
  }
  return llvm::Error::success();
}

} // namespace pipec
