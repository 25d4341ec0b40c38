#include "ir/artifact/StageModule.h"

#include "ir/NodeInfo.h"
#include "ir/Refusals.h"
#include "ir/TorchError.h"
#include "ir/ViewLike.h"
#include "ir/artifact/StageCheck.h"
#include "ir/artifact/StageFacts.h"
#include "ir/graph/LstmState.h"
#include "ir/support/Try.h"
#include "ir/torchfile/ModuleCopy.h"
#include "ir/torchfile/TorchFile.h"
#include "ir/values/MapTensors.h"
#include "llvm/ADT/StringRef.h"

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/runtime/interpreter.h>

#include <functional>
#include <map>

namespace pipec {

namespace jit = torch::jit;

struct StageModule::Impl {
  std::string path;
  StagePlan plan;
  jit::Module module;
  std::shared_ptr<jit::Graph> graph; // of pipec_forward, ours to change
  std::vector<c10::TypePtr> inputTypes;
  std::vector<c10::IValue> attributes; // None until it arrives
  std::optional<jit::Code> code;       // of graph, made at the first run
  std::optional<jit::Code> quietCode;  // without prints and warnings, made at the first quiet run

  llvm::Error checkReady(size_t inputs) const;
  /// The module and the inputs, in their memory, with room for the weights.
  jit::Stack stackOf(std::vector<c10::IValue> inputs) const;
  /// Returns the outputs in the memory of `stack`.
  llvm::Expected<std::vector<c10::IValue>> run(const jit::Code &chosen, jit::Stack stack);
  llvm::Error makeQuietCode();
  void takeAttributes();
};

/// For prim::fork. LibTorch's own launcher hands the call to a pool of threads.
static void runHere(std::function<void()> call) { call(); }

llvm::Error StageModule::Impl::checkReady(size_t inputs) const {
  if (inputs != plan.inputs.size())
    return failf(ExitCode::Other, "expected {} inputs, got {}", plan.inputs.size(), inputs);
  for (size_t i = 0; i < plan.attributes.size(); ++i)
    if (const StageAttribute &attribute = plan.attributes[i];
        attribute.channel && attribute.uses > 0 && attributes[i].isNone())
      return failf(ExitCode::Other,
                   "attribute {}: expected a value from channel {} before the first run, got none",
                   attribute.name, *attribute.channel);
  return llvm::Error::success();
}

jit::Stack StageModule::Impl::stackOf(std::vector<c10::IValue> inputs) const {
  inputs.reserve(graph->inputs().size());
  inputs.insert(inputs.begin(), module._ivalue());
  return inputs;
}

llvm::Error StageModule::Impl::makeQuietCode() {
  if (quietCode)
    return llvm::Error::success();
  if (!anyNodeInside(graph->block(), isPrint)) {
    quietCode = *code;
    return llvm::Error::success();
  }
  return guardTorchVoid(ExitCode::Usage, "running the stage", [&] {
    std::shared_ptr<jit::Graph> quiet = graph->copy();
    removePrints(quiet->block());
    quietCode.emplace(std::move(quiet), "pipec_forward");
  });
}

llvm::Expected<std::vector<c10::IValue>> StageModule::Impl::run(const jit::Code &chosen,
                                                                jit::Stack stack) {
  // An operator that fails between two switches of the stage would leave the thread without
  // gradients.
  const c10::AutoGradMode restored(c10::GradMode::is_enabled());
  TRY(guardTorchVoid(ExitCode::Usage, "running the stage",
                     [&] { jit::InterpreterState(chosen, runHere).run(stack); }));
  if (plan.outputs.size() != 1) {
    const c10::IValue all = std::move(stack.back());
    stack.clear();
    if (plan.outputs.size() > 1)
      llvm::append_range(stack, all.toTupleRef().elements());
  }
  for (size_t i = 0; i < stack.size(); ++i)
    if (auto state = plan.outputs[i].state)
      attributes[*state] = stack[i];
  // The next micro-batch would walk back into this one, whose graph is gone then.
  for (size_t i = 0; i < plan.attributes.size(); ++i)
    if (plan.attributes[i].written && hasGraph(attributes[i]))
      return refuseWith(Refusal::StateWithGradient, plan.attributes[i].name);
  return stack;
}

/// Those that the module holds; others arrive later.
void StageModule::Impl::takeAttributes() {
  attributes.clear();
  for (const StageAttribute &attribute : plan.attributes)
    attributes.push_back(attribute.channel ? c10::IValue() : *attributeAt(module, attribute.name));
}

c10::IValue runMethod(const jit::Module &module, const std::string &method,
                      std::vector<c10::IValue> arguments) {
  jit::Function &function = module.get_method(method).function();
  jit::Stack stack = std::move(arguments);
  stack.insert(stack.begin(), module._ivalue());
  function.getSchema().checkAndNormalizeInputs(stack);
  jit::ExecutionPlan plan;
  {
    // Under autocast, operators cast their own arguments, as in a stage: the executor would write
    // casts into the graph by other rules.
    const c10::impl::ExcludeDispatchKeyGuard noAutocast(c10::autocast_dispatch_keyset);
    plan = jit::toGraphFunction(function).get_executor().getPlanFor(stack);
  }
  const c10::AutoGradMode restored(c10::GradMode::is_enabled()); // as in a stage
  jit::InterpreterState(plan.code, runHere).run(stack);
  return std::move(stack.front());
}

namespace {

llvm::Error bad(const std::string &path, const std::string &what) {
  return makeError(ExitCode::BadArtifact, path + ": " + what, "compile the model again");
}

/// Moves tensors; shared memory stays shared, and strides stay the same.
class Mover {
public:
  explicit Mover(at::Device device) : device_(device) {}

  at::Tensor operator()(const at::Tensor &tensor) {
    if (!tensor.defined() || tensor.device() == device_)
      return tensor;
    at::Tensor &moved = tensors_[tensor.unsafeGetTensorImpl()];
    if (!moved.defined()) {
      moved = plain(tensor) ? onMovedStorage(tensor) : tensor.detach().to(device_);
      moved.set_requires_grad(tensor.requires_grad());
    }
    return moved;
  }

private:
  static bool plain(const at::Tensor &tensor) {
    return tensor.layout() == at::kStrided && !tensor.is_quantized() && tensor.has_storage();
  }
  at::Tensor onMovedStorage(const at::Tensor &tensor) {
    const c10::Storage &storage = tensor.storage();
    at::Tensor &bytes = storages_[storage.unsafeGetStorageImpl()];
    if (!bytes.defined()) {
      auto whole = at::empty({0}, tensor.options().dtype(at::kByte).requires_grad(false));
      whole.set_(storage, 0, {static_cast<int64_t>(storage.nbytes())}, {1});
      bytes = whole.to(device_);
    }
    return viewLike(tensor, bytes.storage(), tensor.storage_offset());
  }

  at::Device device_;
  std::map<const void *, at::Tensor> tensors_, storages_; // look-ups only
};

void moveConstants(jit::Block *block, const at::Device &device, Mover &mover) {
  for (jit::Node *node : block->nodes()) {
    for (jit::Block *inner : node->blocks())
      moveConstants(inner, device, mover);
    if (node->kind() != c10::prim::Constant || !node->hasAttribute(c10::attr::value))
      continue;
    bool isDevice = node->output()->type()->kind() == c10::TypeKind::DeviceObjType;
    if (isDevice && at::Device(node->s(c10::attr::value)).type() != at::kMeta)
      node->s_(c10::attr::value, device.str());
    if (node->kindOf(c10::attr::value) == jit::AttributeKind::t)
      node->t_(c10::attr::value, mover(node->t(c10::attr::value)));
    if (node->kindOf(c10::attr::value) == jit::AttributeKind::ival && !isDevice)
      node->ival_(c10::attr::value, mapTensors(node->ival(c10::attr::value), mover));
  }
}

} // namespace

StageModule::StageModule(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
StageModule::StageModule(StageModule &&) = default;
StageModule &StageModule::operator=(StageModule &&) = default;
StageModule::~StageModule() = default;

llvm::Expected<StageModule> StageModule::load(const std::string &path, const StagePlan &plan) {
  auto module = loadMapped(path);
  if (!module) {
    // Any problem of a stage file is a problem of the artifact.
    ErrorText text = describe(module.takeError());
    const bool lacksLibrary = llvm::StringRef(text.help).contains("--load-library");
    return makeError(text.code == ExitCode::Unreadable ? ExitCode::BadArtifact : text.code,
                     text.message, lacksLibrary ? text.help : "compile the model again");
  }
  llvm::Expected<StageFacts> facts = stageFacts(*module, plan);
  if (!facts)
    return bad(path, describe(facts.takeError()).message);
  if (llvm::Error error = checkStage(plan, *facts))
    return bad(path, describe(std::move(error)).message);

  jit::Method method = module->get_method("pipec_forward");
  auto impl = std::make_unique<Impl>();
  impl->path = path;
  impl->plan = plan;
  impl->graph = method.graph();
  insertLstmStateChecks(impl->graph->block());
  const auto &arguments = method.function().getSchema().arguments();
  for (size_t i = 0; i < plan.inputs.size(); ++i)
    impl->inputTypes.push_back(arguments[i + 1].type());
  impl->module = std::move(*module);
  impl->takeAttributes();
  return StageModule(std::move(impl));
}

bool StageModule::canBeCopied() const { return pipec::canBeCopied(impl_->module); }

llvm::Expected<StageModule> StageModule::copy() const {
  auto copied = std::make_unique<Impl>(*impl_);
  copied->module = TRY(copyOf(impl_->module));
  copied->takeAttributes();
  return StageModule(std::move(copied));
}

llvm::Error StageModule::prepare() {
  if (impl_->code)
    return llvm::Error::success();
  return guardTorchVoid(ExitCode::Usage, "running the stage",
                        [&] { impl_->code.emplace(impl_->graph, "pipec_forward"); });
}

void StageModule::silence() { removePrints(impl_->graph->block()); }

void StageModule::rewrite(llvm::function_ref<void(jit::Block &)> edit) {
  edit(*impl_->graph->block());
  impl_->code.reset();
  impl_->quietCode.reset();
}

bool StageModule::mayUseGenerator() const {
  return anyNodeInside(impl_->graph->block(), pipec::mayUseGenerator);
}

llvm::Expected<std::vector<c10::IValue>> StageModule::run(std::vector<c10::IValue> inputs) {
  TRY(impl_->checkReady(inputs.size()));
  jit::Stack stack = impl_->stackOf(std::move(inputs));
  for (size_t i = 0; i < impl_->plan.attributes.size(); ++i)
    stack.insert(stack.end(), impl_->plan.attributes[i].uses, impl_->attributes[i]);
  TRY(prepare());
  return impl_->run(*impl_->code, std::move(stack));
}

llvm::Expected<std::vector<c10::IValue>>
StageModule::run(std::vector<c10::IValue> inputs, llvm::ArrayRef<c10::IValue> uses, bool quietly) {
  TRY(impl_->checkReady(inputs.size()));
  jit::Stack stack = impl_->stackOf(std::move(inputs));
  stack.insert(stack.end(), uses.begin(), uses.end());
  TRY(prepare());
  if (quietly)
    TRY(impl_->makeQuietCode());
  return impl_->run(quietly ? *impl_->quietCode : *impl_->code, std::move(stack));
}

/// Includes operators whose schema hides their writes: running statistics, quantised relu6.
static bool anyWrites(const jit::Block &block) {
  for (const jit::Node *node : block.nodes()) {
    const c10::FunctionSchema *schema = node->maybeSchema();
    llvm::StringRef name = node->kind().toUnqualString();
    if ((schema && schema->is_mutable()) || name.contains("norm") || name == "relu6")
      return true;
    for (const jit::Block *inner : node->blocks())
      if (anyWrites(*inner))
        return true;
  }
  return false;
}

bool StageModule::writesInPlace() const {
  std::vector<bool> replaced(impl_->plan.attributes.size(), false);
  for (const StageOutput &output : impl_->plan.outputs)
    if (output.state)
      replaced[*output.state] = true;
  for (size_t i = 0; i < replaced.size(); ++i)
    if (impl_->plan.attributes[i].written && !replaced[i])
      return true;
  return anyWrites(*impl_->graph->block());
}

const c10::IValue &StageModule::attribute(size_t index) const {
  return impl_->attributes.at(index);
}

void StageModule::setAttribute(size_t index, c10::IValue value) {
  impl_->attributes.at(index) = std::move(value);
}

bool StageModule::isPlain(const std::string &name) const {
  return isPlainTensor(impl_->module, name);
}

c10::TypePtr StageModule::attributeType(size_t index) const {
  return typeAt(impl_->module, impl_->plan.attributes.at(index).name);
}

std::vector<c10::TypePtr> StageModule::inputTypes() const { return impl_->inputTypes; }

llvm::Error StageModule::moveTo(const std::string &device) {
  for (const StageAttribute &attribute : impl_->plan.attributes)
    if (attribute.kind == AttributeKind::Object && device != "cpu")
      return failf(
          ExitCode::Usage,
          "{}: attribute {} is an object that lives on the CPU, expected device cpu, got {}",
          impl_->path, attribute.name, device);
  return guardTorchVoid(ExitCode::Usage,
                        fmt::format("{}: moving to device {}", impl_->path, device), [&] {
                          at::Device target(device);
                          Mover mover(target);
                          at::NoGradGuard noGrad;
                          for (c10::IValue &value : impl_->attributes)
                            value = mapTensors(value, mover);
                          moveConstants(impl_->graph->block(), target, mover);
                          impl_->code.reset();
                        });
}

void shareWeights(const Plan &plan, std::vector<StageModule> &stages) {
  for (const Channel &channel : plan.channels)
    if (channel.kind == Channel::Kind::Weight)
      for (const PortRef &to : channel.to)
        stages[to.stage].setAttribute(to.port,
                                      stages[channel.from.stage].attribute(channel.from.port));
}

} // namespace pipec
