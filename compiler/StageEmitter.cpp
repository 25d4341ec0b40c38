#include "compiler/StageEmitter.h"

#include "compiler/ArchiveChecksums.h"
#include "compiler/RoundTrip.h"
#include "compiler/StageWeights.h"
#include "ir/GraphVerify.h"
#include "ir/TorchError.h"
#include "ir/TorchFileTime.h"
#include "ir/Values.h"
#include "ir/artifact/ArgumentNames.h"
#include "llvm/ADT/StringExtras.h"

#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/serialization/export.h>

#include <sstream>
#include <stdexcept>

namespace pipec {

namespace {

using torch::jit::Block;
using torch::jit::Graph;
using torch::jit::Module;
using torch::jit::Node;
using torch::jit::Value;

/// Source lines would make the bytes depend on where the author's file lay.
void stripSourceRanges(Block &block) {
  for (Node *node : block.nodes()) {
    node->setSourceRange(torch::jit::SourceRange());
    for (Block *inner : node->blocks())
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
  Module makeModule(const std::string &name) {
    auto type = c10::ClassType::create(c10::QualifiedName(name), unit_, /*is_module=*/true);
    unit_->register_type(type);
    Module module(unit_, type);
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
  Module holderOf(llvm::StringRef path, std::string &leaf) {
    Module holder = module_;
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
    Module holder = holderOf(path, leaf);
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
  std::shared_ptr<Graph> beginMethod() {
    auto graph = std::make_shared<Graph>();
    graph->addInput("self")->setType(module_.type());
    names_ = {};
    return graph;
  }

  Value *addInput(Graph &graph, llvm::StringRef name, const c10::TypePtr &type) {
    Value *value = graph.addInput(names_.next(name));
    value->setType(type);
    return value;
  }

  static Value *holderValue(Graph &graph, llvm::StringRef path, std::string &leaf) {
    Value *holder = graph.inputs()[0];
    for (auto [head, tail] = path.split('.'); !tail.empty();
         std::tie(head, tail) = tail.split('.')) {
      holder = graph.insertGetAttr(holder, head.str());
      path = tail;
    }
    leaf = path.str();
    return holder;
  }

  static Value *loadAttribute(Graph &graph, const std::string &path) {
    std::string leaf;
    Value *holder = holderValue(graph, path, leaf);
    return graph.insertGetAttr(holder, leaf);
  }

  static void storeAttribute(Graph &graph, const std::string &path, Value *value) {
    std::string leaf;
    Value *holder = holderValue(graph, path, leaf);
    graph.insertNode(graph.create(c10::prim::SetAttr, {holder, value}, 0))
        ->s_(c10::attr::name, leaf);
  }

  torch::jit::Function *finish(const std::string &method, const std::shared_ptr<Graph> &graph,
                               Value *result) {
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
  Module module_;

private:
  ArgumentNames names_; // of the arguments of the method that is being made
};

class StageEmitter : ModuleBuilder {
public:
  StageEmitter(const StagedModel &model, size_t index)
      : ModuleBuilder("__torch__.pipec.Stage" + std::to_string(index), /*training=*/true),
        model_(model), stage_(model.stages[index]), values_(stageWeights(model, index)) {}

  Module build() {
    addAttributes();
    addForward();
    addPipecForward();
    return module_;
  }

private:
  void addAttributes() {
    for (size_t i = 0; i < stage_.plan.attributes.size(); ++i) {
      const StageAttribute &entry = stage_.plan.attributes[i];
      if (entry.channel || entry.kind == AttributeKind::Constant)
        continue;
      registerAs(entry.name, entry.kind, values_[i], attributeType(i));
      for (const std::string &other : entry.otherNames)
        registerAs(other, entry.kind, values_[i], attributeType(i));
    }
  }

  c10::TypePtr attributeType(size_t index) const {
    return stage_.graph->inputs()[stage_.plan.inputs.size() + index]->type();
  }

  void addForward() {
    std::shared_ptr<Graph> graph = beginMethod();
    std::vector<Value *> arguments = addPorts(*graph);
    std::vector<Value *> attributes(stage_.plan.attributes.size(), nullptr);
    for (size_t i = 0; i < attributes.size(); ++i)
      if (stage_.plan.attributes[i].channel)
        attributes[i] = addInput(*graph, stage_.plan.attributes[i].name, c10::TensorType::get());
    for (size_t i = 0; i < attributes.size(); ++i)
      if (!attributes[i])
        attributes[i] = attributeValue(*graph, i);
    arguments.insert(arguments.end(), attributes.begin(), attributes.end());
    std::vector<Value *> results = torch::jit::insertGraph(*graph, *stage_.graph, arguments);
    std::vector<Value *> outputs;
    for (size_t i = 0; i < results.size(); ++i) {
      if (std::optional<size_t> state = stage_.plan.outputs[i].state)
        storeAttribute(*graph, stage_.plan.attributes[*state].name, results[i]);
      else
        outputs.push_back(results[i]);
    }
    for (size_t channel : stage_.plan.weightChannelsOut)
      outputs.push_back(attributes[ownedBy(channel)]);
    finish("forward", graph, packed(*graph, outputs));
  }

  void addPipecForward() {
    std::shared_ptr<Graph> graph = beginMethod();
    std::vector<Value *> arguments = addPorts(*graph);
    std::vector<std::vector<Value *>> perUse(stage_.plan.attributes.size());
    for (size_t i = 0; i < perUse.size(); ++i) {
      const StageAttribute &entry = stage_.plan.attributes[i];
      for (size_t use = 0; entry.kind != AttributeKind::Constant && use < entry.uses; ++use)
        perUse[i].push_back(addInput(*graph, entry.name, attributeType(i)));
    }
    for (size_t i = 0; i < perUse.size(); ++i)
      arguments.push_back(!perUse[i].empty() ? perUse[i][0]
                          : stage_.plan.attributes[i].kind == AttributeKind::Constant
                              ? graph->insertConstant(values_[i])
                              : graph->inputs()[0]); // unread: no node sees it
    std::vector<Value *> results = torch::jit::insertGraph(*graph, *stage_.graph, arguments);
    for (std::vector<Value *> &uses : perUse)
      giveEachUseItsArgument(uses);
    finish("pipec_forward", graph, packed(*graph, results));
  }

  /// Uses in program order: gradients of one weight are summed in the reverse of it.
  static void giveEachUseItsArgument(const std::vector<Value *> &arguments) {
    if (arguments.size() < 2)
      return;
    std::vector<torch::jit::Use> uses = arguments[0]->uses();
    std::stable_sort(uses.begin(), uses.end(),
                     [](const torch::jit::Use &a, const torch::jit::Use &b) {
                       return a.user == b.user ? a.offset < b.offset : a.user->isBefore(b.user);
                     });
    for (size_t i = 1; i < uses.size(); ++i)
      uses[i].user->replaceInput(uses[i].offset, arguments[i]);
  }

  std::vector<Value *> addPorts(Graph &graph) {
    std::vector<Value *> ports;
    for (size_t i = 0; i < stage_.plan.inputs.size(); ++i)
      ports.push_back(
          addInput(graph, stage_.plan.inputs[i].name, stage_.graph->inputs()[i]->type()));
    return ports;
  }

  Value *attributeValue(Graph &graph, size_t index) {
    const StageAttribute &entry = stage_.plan.attributes[index];
    if (entry.kind == AttributeKind::Constant)
      return graph.insertConstant(values_[index]);
    bool sent = llvm::any_of(stage_.plan.weightChannelsOut,
                             [&](size_t channel) { return ownedBy(channel) == index; });
    if (entry.uses == 0 && !sent)
      return graph.inputs()[0]; // unread: no node sees it
    return loadAttribute(graph, entry.name);
  }

  /// Index of the attribute that a weight channel sends.
  size_t ownedBy(size_t channel) const { return model_.channels[channel].from.port; }

  static Value *packed(Graph &graph, const std::vector<Value *> &outputs) {
    if (outputs.size() == 1)
      return outputs[0];
    if (outputs.empty())
      return graph.insertConstant(c10::IValue());
    return graph.insertNode(graph.createTuple(outputs))->output();
  }

  const StagedModel &model_;
  const Stage &stage_;
  std::vector<c10::IValue> values_;
};

/// A whole flat model as a module with its own method again.
class ModelEmitter : ModuleBuilder {
public:
  // Training flags are folded into the graph: what the modules still have says that nothing trains.
  explicit ModelEmitter(const Model &model)
      : ModuleBuilder("__torch__.pipec.Model", /*training=*/false), model_(model) {}

  Module build() {
    for (size_t i = 0; i < model_.attributes.size(); ++i) {
      const Attribute &attribute = model_.attributes[i];
      registerAs(attribute.name, attribute.kind, attribute.value, inputOf(i)->type());
      for (const std::string &other : attribute.otherNames)
        registerAs(other, attribute.kind, attribute.value, inputOf(i)->type());
    }
    addMethod();
    return module_;
  }

private:
  Value *inputOf(size_t attribute) const {
    return model_.graph->inputs()[model_.argumentCount() + attribute];
  }

  void addMethod() {
    std::shared_ptr<Graph> graph = beginMethod();
    std::vector<Value *> values;
    for (size_t i = 0; i < model_.argumentCount(); ++i)
      values.push_back(
          addInput(*graph, model_.signature.inputs[i].name, model_.graph->inputs()[i]->type()));
    for (size_t i = 0; i < model_.attributes.size(); ++i)
      values.push_back(inputOf(i)->hasUses() ? loadAttribute(*graph, model_.attributes[i].name)
                                             : graph->inputs()[0]);
    results_ = torch::jit::insertGraph(*graph, *model_.graph, values);
    size_t leaves = model_.signature.leaves.size();
    for (size_t i = 0; i < model_.stateOutputs.size(); ++i)
      storeAttribute(*graph, model_.attributes[model_.stateOutputs[i]].name, results_[leaves + i]);
    Value *result = tree(*graph, model_.signature.outputs);
    torch::jit::Function *function = finish(model_.signature.method, graph, result);
    function->setSchema(withDefaults(function->getSchema()));
  }

  /// The names and default values of the source's arguments.
  c10::FunctionSchema withDefaults(const c10::FunctionSchema &schema) const {
    std::vector<c10::Argument> arguments = schema.arguments();
    for (size_t i = 0; i < model_.argumentCount(); ++i) {
      const InputSpec &input = model_.signature.inputs[i];
      c10::Argument &argument = arguments[i + 1];
      argument =
          c10::Argument(input.name, argument.type(), std::nullopt, defaultOf(input, argument));
    }
    return schema.cloneWithArguments(std::move(arguments));
  }

  static std::optional<c10::IValue> defaultOf(const InputSpec &input,
                                              const c10::Argument &argument) {
    if (!input.defaultValue)
      return std::nullopt;
    Signature one;
    one.inputs = {input};
    llvm::Expected<std::vector<c10::IValue>> bound = bindArguments(one, {argument.type()}, {});
    if (bound)
      return (*bound)[0];
    std::string why = describe(bound.takeError()).message;
    TORCH_CHECK(false, "default of ", input.name, ": ", why);
  }

  /// The result as the source builds it from its parts.
  Value *tree(Graph &graph, const OutputTree &node) {
    if (node.kind == OutputTree::Kind::Leaf)
      return results_[node.leaf];
    std::vector<Value *> children;
    std::vector<c10::TypePtr> types;
    for (const OutputTree &child : node.children) {
      children.push_back(tree(graph, child));
      types.push_back(children.back()->type());
    }
    if (node.kind == OutputTree::Kind::Tuple)
      return graph.insertNode(graph.createTuple(children, namedTuple(node, types)))->output();
    c10::TypePtr element = commonType(types);
    if (node.kind == OutputTree::Kind::List)
      return graph.insertNode(graph.createList(element, children))->output();
    std::vector<Value *> keys;
    for (const std::string &key : node.keys)
      keys.push_back(graph.insertConstant(key));
    return graph.insertNode(graph.createDict(c10::StringType::get(), element, keys, children))
        ->output();
  }

  /// Null for a plain tuple, and for one of an artifact that does not say its fields.
  c10::TupleTypePtr namedTuple(const OutputTree &node, const std::vector<c10::TypePtr> &types) {
    if (node.keys.empty())
      return nullptr;
    // Two types may have one name: they are told apart by where they are.
    for (size_t number = 1;; ++number) {
      c10::QualifiedName name("__torch__.pipec.named" + std::to_string(number) + "." +
                              node.typeName);
      auto type = c10::TupleType::createNamed(name, node.keys, types);
      c10::NamedTypePtr known = unit_->get_type(name);
      if (known && *known == *type)
        return known->expect<c10::TupleType>();
      if (known)
        continue;
      unit_->register_type(type);
      return type;
    }
  }

  static c10::TypePtr commonType(const std::vector<c10::TypePtr> &types) {
    if (types.empty())
      return c10::TensorType::get();
    std::ostringstream why;
    std::optional<c10::TypePtr> common = c10::unifyTypeList(types, why, /*default_to_union=*/false);
    TORCH_CHECK(common, "the parts of the result have no common type: ", why.str());
    return *common;
  }

  const Model &model_;
  std::vector<Value *> results_;
};

/// Writes what `build` makes. Errors: Internal; what went wrong with the bytes is the sink's to
/// say.
llvm::Error writeModule(Sink &sink, const std::string &what, llvm::function_ref<Module()> build) {
  return guardTorchError(ExitCode::Internal, "writing " + what, [&] {
    Module module = build();
    TorchFileTimer timer;
    ArchiveChecksums checksums([&](llvm::StringRef bytes) { sink.put(bytes); });
    Sink checked([&](llvm::StringRef bytes) { checksums.put(bytes); });
    {
      // Without a path: its name would become part of the archive.
      caffe2::serialize::PyTorchStreamWriter writer(
          [&](const void *bytes, size_t n) {
            checked.put({static_cast<const char *>(bytes), n});
            return n;
          },
          /*compute_crc32=*/false);
      torch::jit::ScriptModuleSerializer(writer).serialize(module, {}, /*bytecode_format=*/false,
                                                           /*save_mobile_debug_info=*/false);
    }
    llvm::Error error = checked.takeError();
    if (!error)
      checksums.finish();
    return error;
  });
}

} // namespace

llvm::Error emitStage(const StagedModel &model, size_t index, Sink &sink) {
  return writeModule(sink, "stage " + std::to_string(index),
                     [&] { return StageEmitter(model, index).build(); });
}

llvm::Error emitModel(const Model &model, NewFile &file) {
  Sink sink([&](llvm::StringRef bytes) { file.write(bytes.data(), bytes.size()); });
  if (llvm::Error error =
          writeModule(sink, "the model", [&] { return ModelEmitter(model).build(); }))
    return error;
  return sink.takeError();
}

} // namespace pipec
