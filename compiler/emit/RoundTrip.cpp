#include "compiler/emit/RoundTrip.h"

#include "compiler/emit/CarryMetadata.h"
#include "ir/NodeInfo.h"
#include "ir/RandomOps.h"
#include "ir/TorchError.h"
#include "ir/support/Try.h"
#include "ir/text/CanonicalText.h"
#include "ir/torchfile/TorchFileTime.h"
#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <caffe2/serialize/versions.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/serialization/import_source.h>
#include <torch/csrc/jit/serialization/python_print.h>

namespace pipec {

namespace {

using torch::jit::Block;
using torch::jit::Graph;
using torch::jit::Node;
using torch::jit::Value;

/// For a copy: fork bodies, which it shares with the model, keep their source lines.
void forgetSourceLines(Block &block) {
  for (Node *node : block.nodes()) {
    node->setSourceRange(torch::jit::SourceRange());
    for (Block *inner : node->blocks())
      forgetSourceLines(*inner);
  }
}

/// TorchScript source and its constants: the content of a file, without the file.
struct Written {
  torch::jit::ExtraFilesMap sources; // by the class's prefix, "__torch__.pipec"
  std::vector<c10::IValue> constants;
};

const c10::QualifiedName kClass("__torch__.pipec.Whole");

/// The graph as a method of a module without attributes: weights are arguments, so none is written.
Written write(Graph &source) {
  auto graph = source.copy();
  forgetSourceLines(*graph->block()); // they are carried over separately, and take long to write
                                      // and read
  auto unit = std::make_shared<torch::jit::CompilationUnit>();
  auto type = c10::ClassType::create(kClass, unit, /*is_module=*/true);
  unit->register_type(type);
  torch::jit::Module module(unit, type);
  for (size_t i = 0; i < graph->inputs().size(); ++i)
    graph->inputs()[i]->setDebugName("pipec_argument_" + std::to_string(i) + "_");
  nameResultsInOrder(*graph);
  graph->insertInput(0, "self")->setType(type);
  if (graph->outputs().size() != 1) {
    Node *tuple = graph->insertNode(graph->createTuple(graph->outputs().vec()));
    while (!graph->outputs().empty())
      graph->eraseOutput(graph->outputs().size() - 1);
    graph->registerOutput(tuple->output());
  }
  type->addMethod(unit->create_function(c10::QualifiedName(kClass, "forward"), graph));
  TorchFileTimer timer;
  Written written;
  torch::jit::jitModuleToPythonCodeAndConstants(module, &written.sources, &written.constants);
  return written;
}

c10::ClassTypePtr load(const Written &written, std::shared_ptr<torch::jit::CompilationUnit> unit) {
  TorchFileTimer timer;
  auto source = [&](const std::string &qualifier) -> std::shared_ptr<torch::jit::Source> {
    auto text = written.sources.find(qualifier);
    if (text == written.sources.end())
      return nullptr;
    return std::make_shared<torch::jit::Source>(text->second, text->first, 1);
  };
  // The newest version: LibTorch replaces operators of older ones, and these are in use.
  torch::jit::SourceImporter importer(std::move(unit), &written.constants, source,
                                      caffe2::serialize::kMaxSupportedFileFormatVersion);
  return importer.loadType(kClass)->expect<c10::ClassType>();
}

std::shared_ptr<Graph> read(const Written &written, size_t outputs) {
  auto unit = std::make_shared<torch::jit::CompilationUnit>();
  c10::ClassTypePtr type = load(written, unit);
  // Not a copy: this is the only reference to the module.
  auto graph = torch::jit::toGraphFunction(type->getMethod("forward")).graph();
  graph->eraseInput(0);
  if (outputs == 1)
    return graph;
  Node *tuple = graph->outputs()[0]->node();
  std::vector<Value *> results = tuple->inputs().vec();
  graph->eraseOutput(0);
  for (Value *result : results)
    graph->registerOutput(result);
  tuple->destroy();
  return graph;
}

void flatten(Block &block, std::vector<Node *> &nodes) {
  for (Node *node : block.nodes()) {
    if (node->kind() == c10::prim::Constant)
      continue;
    nodes.push_back(node);
    for (Block *inner : node->blocks())
      flatten(*inner, nodes);
  }
}

std::vector<Node *> randomOperators(Graph &graph) {
  std::vector<Node *> nodes;
  flatten(*graph.block(), nodes);
  llvm::erase_if(nodes, [](Node *node) { return drawsOf(node) == Draws::Never; });
  return nodes;
}

/// Inserts a check that always holds but that LibTorch cannot evaluate. LibTorch keeps values that
/// a check reads.
void insertCheckOf(Node *draw) {
  Graph &graph = *draw->owningGraph();
  torch::jit::WithInsertPoint guard(draw->next());
  Value *none = graph.insertConstant(0);
  Value *size = graph.insert(c10::Symbol::aten("numel"), {draw->output(0)});
  Node *branch =
      graph.insertNode(graph.create(c10::prim::If, {graph.insert(c10::aten::lt, {size, none})}, 0));
  Block *raises = branch->addBlock();
  branch->addBlock();
  torch::jit::WithInsertPoint inside(raises);
  graph.insert(c10::prim::RaiseException, {graph.insertConstant("a tensor of negative size"),
                                           graph.insertConstant("builtins.RuntimeError")});
  // The origin of the draw, for messages.
  for (Node *node = draw->next(); node != branch->next(); node = node->next())
    node->copyMetadata(draw);
}

/// When LibTorch reads source, it drops operators whose results are unused in their function. It
/// already did so in the author's functions. The operators that are unused now either computed an
/// unused result of a call, or lost their users in a pass. The source runs them and draws for them,
/// and without these draws later operators would draw other numbers.
bool keepUnusedDraws(Graph &graph) {
  bool changed = false;
  for (Node *node : randomOperators(graph)) {
    if (node->hasUses() || node->outputs().empty() ||
        node->output(0)->type()->kind() != c10::TypeKind::TensorType)
      continue;
    insertCheckOf(node);
    changed = true;
  }
  return changed;
}

/// Losing a draw would change what later operators draw.
llvm::Error checkNoDrawIsLost(Graph &before, Graph &after) {
  std::vector<Node *> drawn = randomOperators(before);
  size_t left = randomOperators(after).size();
  if (drawn.size() == left)
    return llvm::Error::success();
  auto unused = llvm::find_if(drawn, [](Node *node) { return !node->hasUses(); });
  std::string which = unused == drawn.end() ? "a random operator" : describeNode(*unused);
  return failf(ExitCode::Internal,
               "{}: lost by writing the model: expected {} random operators, got {}", which,
               drawn.size(), left);
}

void nameInOrder(Block &block) {
  for (Node *node : block.nodes()) {
    const bool branches = node->kind() == c10::prim::If || node->kind() == c10::prim::Loop;
    for (size_t i = 0; branches && node->outputs().size() > 1 && i < node->outputs().size(); ++i)
      node->output(i)->setDebugName(fmt::format("v{:06}_", i));
    for (Block *inner : node->blocks())
      nameInOrder(*inner);
    if (node->hasAttribute(c10::attr::Subgraph))
      nameInOrder(*node->g(c10::attr::Subgraph)->block());
  }
}

} // namespace

void nameResultsInOrder(Graph &graph) { nameInOrder(*graph.block()); }

llvm::Expected<bool> roundTrip(Model &model) {
  constexpr int kRounds = 6;
  bool changed = keepUnusedDraws(*model.graph);
  std::vector<std::string> before = canonicalLines(model);
  for (int round = 0; round < kRounds; ++round) {
    std::shared_ptr<Graph> graph = TRY(
        guardTorch(ExitCode::Internal, "writing the model as TorchScript and reading it back", [&] {
          auto result = read(write(*model.graph), model.graph->outputs().size());
          carryMetadata(*model.graph, *result);
          return result;
        }));
    TRY(checkNoDrawIsLost(*model.graph, *graph));
    std::shared_ptr<Graph> old = model.graph;
    model.graph = graph;
    std::vector<std::string> after = canonicalLines(model);
    if (after == before) {
      model.graph = old; // with the author's names
      return changed;
    }
    before = std::move(after);
    changed = true;
  }
  return makeError(
      ExitCode::Internal,
      "the model's graph has no stable form: it changes each time it is written and read");
}

} // namespace pipec
