#include "compiler/emit/StageEmitter.h"

#include "compiler/emit/ArchiveChecksums.h"
#include "compiler/emit/ModelEmitter.h"
#include "compiler/emit/ModuleBuilder.h"
#include "compiler/emit/StageWeights.h"
#include "ir/TorchError.h"
#include "ir/support/Try.h"
#include "ir/torchfile/TorchFileTime.h"

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/serialization/export.h>

#include <set>

namespace pipec {

namespace {

using torch::jit::Graph;
using torch::jit::Module;
using torch::jit::Value;

class StageEmitter : ModuleBuilder {
public:
  StageEmitter(const StagedModel &model, size_t index)
      : ModuleBuilder("__torch__.pipec.Stage" + std::to_string(index), /*training=*/true),
        model_(model), stage_(model.stages[index]), values_(stageWeights(model, index)) {
    for (const Attribute &attribute : model.attributes)
      plainNames_.insert(attribute.plainNames.begin(), attribute.plainNames.end());
  }

  llvm::Expected<Module> build() {
    addAttributes();
    const torch::jit::Function *pipecForward = TRY(addPipecForward());
    TRY(addForward(*pipecForward));
    return module_;
  }

private:
  void addAttributes() {
    for (size_t i = 0; i < stage_.plan.attributes.size(); ++i) {
      const StageAttribute &entry = stage_.plan.attributes[i];
      if (entry.channel || entry.kind == AttributeKind::Constant)
        continue;
      for (const std::string &name : entry.allNames())
        registerAs(name, entry.kind, isPlain(name), values_[i], attributeType(i));
    }
    addPlainNamesOfReceivers();
  }

  /// A stage may know a sent tensor by other names. Its file does not hold the tensor, so this one
  /// says which of them are neither parameters nor buffers.
  void addPlainNamesOfReceivers() {
    for (size_t channel : stage_.plan.weightChannelsOut)
      for (const PortRef &to : model_.channels[channel].to)
        for (const std::string &name : model_.stages[to.stage].plan.attributes[to.port].allNames())
          if (isPlain(name))
            registerAs(name, AttributeKind::Buffer, /*isPlain=*/true, values_[ownedBy(channel)],
                       c10::TensorType::get());
  }

  bool isPlain(const std::string &name) const { return plainNames_.count(name) != 0; }

  c10::TypePtr attributeType(size_t index) const {
    return stage_.graph->inputs()[stage_.plan.inputs.size() + index]->type();
  }

  /// forward calls `pipecForward` with the module's own weights, so the file holds the stage's code
  /// once.
  llvm::Error addForward(const torch::jit::Function &pipecForward) {
    std::shared_ptr<Graph> graph = beginMethod();
    std::vector<Value *> arguments = {graph->inputs()[0]};
    llvm::append_range(arguments, addPorts(*graph));
    std::vector<Value *> attributes(stage_.plan.attributes.size(), nullptr);
    for (size_t i = 0; i < attributes.size(); ++i)
      if (stage_.plan.attributes[i].channel)
        attributes[i] = addInput(*graph, stage_.plan.attributes[i].name, c10::TensorType::get());
    for (size_t i = 0; i < attributes.size(); ++i) {
      if (!attributes[i] && isRead(i))
        attributes[i] = loadAttribute(*graph, stage_.plan.attributes[i].name);
      arguments.insert(arguments.end(), argumentsOf(i), attributes[i]);
    }
    std::vector<Value *> results = call(*graph, pipecForward, arguments);
    std::vector<Value *> outputs;
    for (size_t i = 0; i < results.size(); ++i) {
      if (std::optional<size_t> state = stage_.plan.outputs[i].state)
        storeAttribute(*graph, stage_.plan.attributes[*state].name, results[i]);
      else
        outputs.push_back(results[i]);
    }
    for (size_t channel : stage_.plan.weightChannelsOut)
      outputs.push_back(attributes[ownedBy(channel)]);
    return finish("forward", graph, packed(*graph, outputs)).takeError();
  }

  /// The values of the stage's outputs in the caller.
  std::vector<Value *> call(Graph &graph, const torch::jit::Function &method,
                            const std::vector<Value *> &arguments) const {
    torch::jit::Node *node = graph.insertNode(graph.create(c10::prim::CallMethod, arguments));
    node->s_(c10::attr::name, method.name());
    Value *result = node->output()->setType(method.getSchema().returns().at(0).type());
    if (stage_.plan.outputs.size() == 1)
      return {result};
    if (stage_.plan.outputs.empty())
      return {};
    return graph.insertNode(graph.createTupleUnpack(result))->outputs().vec();
  }

  llvm::Expected<torch::jit::Function *> addPipecForward() {
    std::shared_ptr<Graph> graph = beginMethod();
    std::vector<Value *> arguments = addPorts(*graph);
    std::vector<std::vector<Value *>> perUse(stage_.plan.attributes.size());
    for (size_t i = 0; i < perUse.size(); ++i) {
      for (size_t use = 0; use < argumentsOf(i); ++use)
        perUse[i].push_back(addInput(*graph, stage_.plan.attributes[i].name, attributeType(i)));
    }
    for (size_t i = 0; i < perUse.size(); ++i)
      arguments.push_back(!perUse[i].empty() ? perUse[i][0]
                          : stage_.plan.attributes[i].kind == AttributeKind::Constant
                              ? graph->insertConstant(values_[i])
                              : graph->inputs()[0]); // unread: no node sees it
    std::vector<Value *> results = torch::jit::insertGraph(*graph, *stage_.graph, arguments);
    for (std::vector<Value *> &uses : perUse)
      giveEachUseItsArgument(uses);
    return finish("pipec_forward", graph, packed(*graph, results));
  }

  /// How many arguments of pipec_forward an attribute fills.
  size_t argumentsOf(size_t attribute) const {
    const StageAttribute &entry = stage_.plan.attributes[attribute];
    return entry.kind == AttributeKind::Constant ? 0 : entry.uses;
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

  /// Whether forward uses the attribute.
  bool isRead(size_t attribute) const {
    return argumentsOf(attribute) > 0 ||
           llvm::any_of(stage_.plan.weightChannelsOut,
                        [&](size_t channel) { return ownedBy(channel) == attribute; });
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
  std::set<std::string> plainNames_; // of all attributes of the model
};

/// Writes the result of `build`. Errors: Internal; the sink reports errors of writing the bytes.
llvm::Error writeModule(Sink &sink, const std::string &what,
                        llvm::function_ref<llvm::Expected<Module>()> build) {
  return guardTorchError(ExitCode::Internal, "writing " + what, [&]() -> llvm::Error {
    llvm::Expected<Module> module = build();
    if (!module)
      return makeError(ExitCode::Internal,
                       "writing " + what + ": " + describe(module.takeError()).message);
    TorchFileTimer timer;
    ArchiveChecksums checksums([&](llvm::StringRef bytes) { sink.put(bytes); });
    Sink checked([&](llvm::StringRef bytes) { return checksums.put(bytes); });
    {
      // Without a path, because its name would become part of the archive.
      caffe2::serialize::PyTorchStreamWriter writer(
          [&](const void *bytes, size_t n) {
            checked.put({static_cast<const char *>(bytes), n});
            return n;
          },
          /*compute_crc32=*/false);
      torch::jit::ScriptModuleSerializer(writer).serialize(*module, {}, /*bytecode_format=*/false,
                                                           /*save_mobile_debug_info=*/false);
    }
    llvm::Error error = checked.takeError();
    if (!error)
      error = checksums.finish();
    return error ? withContext(std::move(error), "writing " + what) : llvm::Error::success();
  });
}

} // namespace

llvm::Error emitStage(const StagedModel &model, size_t index, Sink &sink) {
  return writeModule(sink, "stage " + std::to_string(index),
                     [&] { return StageEmitter(model, index).build(); });
}

llvm::Error emitModel(const Model &model, NewFile &file) {
  Sink sink([&](llvm::StringRef bytes) {
    file.write(bytes.data(), bytes.size());
    return llvm::Error::success();
  });
  TRY(writeModule(sink, "the model", [&] { return moduleOf(model); }));
  return sink.takeError();
}

} // namespace pipec
