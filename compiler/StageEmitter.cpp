#include "compiler/StageEmitter.h"

#include "compiler/StageWeights.h"
#include "ir/GraphVerify.h"
#include "ir/TorchError.h"
#include "ir/TorchFileTime.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <ostream>
#include <stdexcept>
#include <streambuf>
#include <unistd.h>
#include <utility>

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

class StageEmitter {
public:
  StageEmitter(const StagedModel &model, size_t index)
      : model_(model), stage_(model.stages[index]), values_(stageWeights(model, index)),
        className_("__torch__.pipec.Stage" + std::to_string(index)),
        unit_(std::make_shared<torch::jit::CompilationUnit>()), module_(makeModule(className_)) {}

  Module build() {
    addAttributes();
    addForward();
    addPipecForward();
    return module_;
  }

private:
  Module makeModule(const std::string &name) {
    auto type = c10::ClassType::create(c10::QualifiedName(name), unit_, /*is_module=*/true);
    unit_->register_type(type);
    Module module(unit_, type);
    module.register_attribute("training", c10::BoolType::get(), true);
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
    for (int number = 2; unit_->get_class(c10::QualifiedName(name)); ++number)
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

  void addAttributes() {
    for (size_t i = 0; i < stage_.plan.attributes.size(); ++i) {
      const StageAttribute &entry = stage_.plan.attributes[i];
      if (entry.channel || entry.kind == AttributeKind::Constant)
        continue;
      registerAs(entry.name, entry, values_[i], i);
      for (const std::string &other : entry.otherNames)
        registerAs(other, entry, values_[i], i);
    }
  }

  void registerAs(const std::string &path, const StageAttribute &entry, const c10::IValue &value,
                  size_t index) {
    std::string leaf;
    Module holder = holderOf(path, leaf);
    if (holder.hasattr(leaf))
      return;
    if (entry.kind == AttributeKind::Parameter)
      holder.register_parameter(leaf, value.toTensor(), /*is_buffer=*/false);
    else if (value.isTensor() && entry.kind == AttributeKind::Buffer)
      holder.register_buffer(leaf, value.toTensor());
    else
      holder.register_attribute(
          leaf, stage_.graph->inputs()[stage_.plan.inputs.size() + index]->type(), value);
  }

  void addForward() {
    auto graph = std::make_shared<Graph>();
    Value *self = graph->addInput("self");
    self->setType(module_.type());
    std::vector<Value *> arguments = addPorts(*graph);
    std::vector<Value *> attributes(stage_.plan.attributes.size(), nullptr);
    for (size_t i = 0; i < attributes.size(); ++i)
      if (stage_.plan.attributes[i].channel)
        attributes[i] = addInput(*graph, stage_.plan.attributes[i].name, c10::TensorType::get());
    for (size_t i = 0; i < attributes.size(); ++i)
      if (!attributes[i])
        attributes[i] = loadAttribute(*graph, self, i);
    arguments.insert(arguments.end(), attributes.begin(), attributes.end());
    std::vector<Value *> results = torch::jit::insertGraph(*graph, *stage_.graph, arguments);
    std::vector<Value *> outputs;
    for (size_t i = 0; i < results.size(); ++i) {
      if (std::optional<size_t> state = stage_.plan.outputs[i].state)
        storeAttribute(*graph, self, stage_.plan.attributes[*state].name, results[i]);
      else
        outputs.push_back(results[i]);
    }
    for (size_t channel : stage_.plan.weightChannelsOut)
      outputs.push_back(attributes[ownedBy(channel)]);
    finish("forward", graph, outputs);
  }

  void addPipecForward() {
    auto graph = std::make_shared<Graph>();
    Value *self = graph->addInput("self");
    self->setType(module_.type());
    std::vector<Value *> arguments = addPorts(*graph);
    std::vector<std::vector<Value *>> perUse(stage_.plan.attributes.size());
    for (size_t i = 0; i < perUse.size(); ++i) {
      const StageAttribute &entry = stage_.plan.attributes[i];
      for (size_t use = 0; entry.kind != AttributeKind::Constant && use < entry.uses; ++use)
        perUse[i].push_back(addInput(
            *graph, entry.name, stage_.graph->inputs()[stage_.plan.inputs.size() + i]->type()));
    }
    for (size_t i = 0; i < perUse.size(); ++i)
      arguments.push_back(!perUse[i].empty() ? perUse[i][0]
                          : stage_.plan.attributes[i].kind == AttributeKind::Constant
                              ? graph->insertConstant(values_[i])
                              : self); // unread: no node sees it
    std::vector<Value *> results = torch::jit::insertGraph(*graph, *stage_.graph, arguments);
    for (std::vector<Value *> &uses : perUse)
      giveEachUseItsArgument(uses);
    finish("pipec_forward", graph, results);
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
    names_.clear();
    names_.insert("self");
    std::vector<Value *> ports;
    for (size_t i = 0; i < stage_.plan.inputs.size(); ++i)
      ports.push_back(
          addInput(graph, stage_.plan.inputs[i].name, stage_.graph->inputs()[i]->type()));
    return ports;
  }

  /// Schemas want distinct argument names that are identifiers.
  Value *addInput(Graph &graph, llvm::StringRef name, const c10::TypePtr &type) {
    std::string base;
    for (char c : name)
      base += llvm::isAlnum(c) ? c : '_';
    if (base.empty() || llvm::isDigit(base[0]))
      base = "_" + base;
    std::string unique = base;
    for (int i = 1; !names_.insert(unique).second; ++i)
      unique = base + "_use" + std::to_string(i);
    Value *value = graph.addInput(unique);
    value->setType(type);
    return value;
  }

  Value *holderValue(Graph &graph, Value *self, llvm::StringRef path, std::string &leaf) {
    Value *holder = self;
    for (auto [head, tail] = path.split('.'); !tail.empty();
         std::tie(head, tail) = tail.split('.')) {
      holder = graph.insertGetAttr(holder, head.str());
      path = tail;
    }
    leaf = path.str();
    return holder;
  }

  Value *loadAttribute(Graph &graph, Value *self, size_t index) {
    const StageAttribute &entry = stage_.plan.attributes[index];
    if (entry.kind == AttributeKind::Constant)
      return graph.insertConstant(values_[index]);
    bool sent = llvm::any_of(stage_.plan.weightChannelsOut,
                             [&](size_t channel) { return ownedBy(channel) == index; });
    if (entry.uses == 0 && !sent)
      return self; // unread: no node sees it
    std::string leaf;
    Value *holder = holderValue(graph, self, entry.name, leaf);
    return graph.insertGetAttr(holder, leaf);
  }

  void storeAttribute(Graph &graph, Value *self, const std::string &path, Value *value) {
    std::string leaf;
    Value *holder = holderValue(graph, self, path, leaf);
    graph.insertNode(graph.create(c10::prim::SetAttr, {holder, value}, 0))
        ->s_(c10::attr::name, leaf);
  }

  /// Index of the attribute that a weight channel sends.
  size_t ownedBy(size_t channel) const { return model_.channels[channel].from.port; }

  void finish(const std::string &method, const std::shared_ptr<Graph> &graph,
              const std::vector<Value *> &outputs) {
    if (outputs.size() == 1)
      graph->registerOutput(outputs[0]);
    else if (outputs.empty())
      graph->registerOutput(graph->insertConstant(c10::IValue()));
    else
      graph->registerOutput(graph->insertNode(graph->createTuple(outputs))->output());
    stripSourceRanges(*graph->block());
    if (llvm::Error error = lintGraph(*graph))
      throw std::runtime_error(describe(std::move(error)).message);
    module_.type()->addMethod(
        unit_->create_function(c10::QualifiedName(*module_.type()->name(), method), graph));
  }

  const StagedModel &model_;
  const Stage &stage_;
  std::vector<c10::IValue> values_;
  std::string className_;
  std::shared_ptr<torch::jit::CompilationUnit> unit_;
  Module module_;
  llvm::StringSet<> names_;
};

/// A file that takes everything and remembers what went wrong: the destructor of LibTorch's writer
/// throws, and so ends the process, when a stream refuses bytes.
class FileSink : public std::streambuf {
public:
  explicit FileSink(const std::string &path)
      : fd_(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) {
    note(fd_ < 0);
  }
  FileSink(const FileSink &) = delete;
  FileSink &operator=(const FileSink &) = delete;
  ~FileSink() override { close(); }

  /// errno of the first failure, 0 when every byte was taken.
  int close() {
    if (fd_ >= 0)
      note(::close(std::exchange(fd_, -1)) != 0);
    return errno_;
  }

protected:
  std::streamsize xsputn(const char *bytes, std::streamsize n) override {
    for (std::streamsize done = 0; done < n && !errno_;) {
      ssize_t step = ::write(fd_, bytes + done, n - done);
      if (step < 0 && errno == EINTR)
        continue;
      note(step < 0);
      done += std::max<ssize_t>(step, 0);
    }
    return n;
  }
  int_type overflow(int_type c) override {
    const char byte = traits_type::to_char_type(c);
    xsputn(&byte, 1);
    return traits_type::not_eof(c);
  }

private:
  void note(bool failed) {
    if (failed && !errno_)
      errno_ = errno;
  }

  int fd_, errno_ = 0;
};

} // namespace

llvm::Error emitStage(const StagedModel &model, size_t index, const std::string &path) {
  FileSink sink(path);
  if (llvm::Error error =
          guardTorchVoid(ExitCode::Internal, "writing stage " + std::to_string(index), [&] {
            // To a stream: with a path its name would become part of the archive.
            std::ostream stream(&sink);
            Module module = StageEmitter(model, index).build();
            TorchFileTimer timer;
            module.save(stream);
          }))
    return error;
  if (int failed = sink.close())
    return failf(ExitCode::IO, "{}: cannot write: {}", path, std::strerror(failed));
  return llvm::Error::success();
}

} // namespace pipec
