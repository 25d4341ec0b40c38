#include "ir/torchfile/TorchFile.h"

#include "ir/MarkerOps.h"
#include "ir/ModelSignature.h"
#include "ir/NodeInfo.h"
#include "ir/TorchError.h"
#include "ir/graph/LstmState.h"
#include "ir/support/FirstLine.h"
#include "ir/support/Llvm.h"
#include "ir/support/Try.h"
#include "ir/support/Words.h"
#include "ir/torchfile/JoinLoss.h"
#include "ir/torchfile/SourceLines.h"
#include "ir/torchfile/TorchArchive.h"
#include "ir/torchfile/TorchFileTime.h"
#include "ir/torchfile/UnsavableNames.h"
#include "llvm/ADT/StringExtras.h"

#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/csrc/jit/serialization/import_source.h>
#include <torch/csrc/jit/serialization/unpickler.h>

#include <algorithm>
#include <cstring>
#include <map>

namespace pipec {

namespace jit = torch::jit;

namespace {

/// Builds a module from an archive. Its methods throw.
class ModuleReader {
public:
  explicit ModuleReader(TorchArchive &archive)
      : archive_(archive), unit_(std::make_shared<jit::CompilationUnit>()),
        importer_(
            unit_, &constants_, [this](const std::string &qualifier) { return source(qualifier); },
            archive.reader().version()) {}

  jit::Module read() {
    constants_ = unpickle("constants").toTupleRef().elements().vec();
    jit::Module module(unpickle("data").toObject());
    return module;
  }

private:
  std::shared_ptr<jit::Source> source(const std::string &qualifier) {
    std::string record = qualifier;
    std::replace(record.begin(), record.end(), '.', '/');
    record = "code/" + record + ".py";
    if (!archive_.has(record))
      return nullptr;
    std::string lines = record + ".debug_pkl";
    return sourceWithLines(archive_.text(record), record,
                           archive_.has(lines) ? archive_.text(lines) : "");
  }

  c10::IValue unpickle(const std::string &name) {
    std::string pickle = archive_.text(name + ".pkl");
    size_t at = 0;
    auto readBytes = [&](char *buffer, size_t n) {
      n = std::min(n, pickle.size() - at);
      std::memcpy(buffer, pickle.data() + at, n);
      at += n;
      return n;
    };
    auto resolve = [&](const c10::QualifiedName &type) {
      return c10::StrongTypePtr(unit_, importer_.loadType(type));
    };
    auto readRecord = [&](const std::string &key) {
      std::string record = name + "/" + key;
      at::DataPtr data = archive_.view(record);
      recordSizes_[data.get()] = archive_.reader().getRecordSize(record);
      return data;
    };
    // Everything arrives on the CPU, whatever device it was saved from.
    jit::Unpickler unpickler(readBytes, resolve, jit::ObjLoaderFunc, readRecord,
                             at::Device(at::kCPU));
    unpickler.set_version(archive_.reader().version());
    c10::IValue value = unpickler.parse_ivalue();
    checkStorages(value);
    return value;
  }

  /// The pickle says how many elements a storage has, the zip how many bytes there are: a damaged
  /// file must not make us read beyond them. Throws as the unpickler does: loadMapped() makes one
  /// error of both.
  void checkStorages(const c10::IValue &value) const {
    value.visit([&](const c10::IValue &part) {
      if (!part.isTensor() || !part.toTensor().defined() || !part.toTensor().has_storage())
        return false;
      const c10::Storage &storage = part.toTensor().storage();
      auto size = recordSizes_.find(storage.data());
      TORCH_CHECK(size == recordSizes_.end() || storage.nbytes() <= size->second, "a tensor needs ",
                  storage.nbytes(), " bytes, its record has ", size->second);
      return false;
    });
  }

  TorchArchive &archive_;
  std::shared_ptr<jit::CompilationUnit> unit_;
  std::vector<c10::IValue> constants_;
  std::map<const void *, size_t> recordSizes_; // by first byte; only looked up
  jit::SourceImporter importer_;
};

/// Zip archives that PyTorch writes for other purposes.
llvm::Error checkKind(TorchArchive &archive) {
  if (archive.has("data.pkl") && archive.has("constants.pkl"))
    return llvm::Error::success();
  return notWanted(archive.path(), Wanted::Model, archive.bytes(),
                   "expected a TorchScript model, got a zip archive without data.pkl");
}

constexpr const char *kCannotRead = "LibTorch cannot read this TorchScript model";

/// The user's words for the failures of the TorchScript parser that have a known cure.
llvm::Error explainParserFailure(const std::string &path, llvm::Error error) {
  ErrorText text = describe(std::move(error));
  llvm::StringRef message = text.message;
  if (size_t at = message.find("Unknown builtin op: "); at != llvm::StringRef::npos) {
    llvm::StringRef op =
        message.drop_front(at + strlen("Unknown builtin op: ")).take_until([](char c) {
          return isspace(c);
        });
    return makeError(
        text.code,
        fmt::format("{}: uses the operator {}, which is not registered", path, op.rtrim('.').str()),
        "load the library that defines it: --load-library LIB.so");
  }
  if (std::optional<std::string> name = unsavableName(message))
    return makeError(text.code,
                     fmt::format("{}: expected names and texts in ASCII, got \"{}\", which PyTorch "
                                 "saves but cannot read back",
                                 path, *name),
                     "rename it and save the model again; torch.jit.load refuses this file too");
  if (message.contains("__torch__.torch.classes") || message.contains("Tried to instantiate class"))
    return makeError(text.code, withFirstLine(path + ": " + kCannotRead, message),
                     "if a library defines this class, load it: --load-library LIB.so");
  if (message.contains("required keyword attribute 'value' is undefined"))
    return makeError(text.code, path + ": holds a constant that PyTorch could not write",
                     "save the model without torch.jit.optimize_for_inference; torch.jit.load "
                     "refuses this file too");
  if (text.code != ExitCode::Unreadable)
    return makeError(text.code, text.message, text.help);
  return makeError(
      text.code, withFirstLine(path + ": " + kCannotRead, message),
      "if torch.jit.load reads it, report this to the authors of pipec; otherwise save it again");
}

} // namespace

llvm::Expected<jit::Module> loadMapped(const std::string &path, bool fewReads) {
  registerMarkerOps(); // a model may call pipec::pipe_split
  TorchFileTimer timer;
  auto archive = TRY(TorchArchive::open(path, Wanted::Model, fewReads));
  TRY(checkKind(*archive));
  TRY(checkByteOrder(*archive, "weights"));
  auto module = guardTorch(ExitCode::Unreadable, path + ": " + kCannotRead,
                           [&] { return ModuleReader(*archive).read(); });
  if (!module)
    return explainParserFailure(path, module.takeError());
  return module;
}

static llvm::Error noSuchMethod(const jit::Module &module, const std::string &path,
                                const std::string &name) {
  std::vector<std::string> names;
  for (const jit::Method &other : module.get_methods())
    names.push_back(other.name());
  std::string help =
      names.empty()
          ? "the module has no methods at all: save it with torch.jit.script or torch.jit.trace"
      : names.size() == 1
          ? "its only method is " + names[0] + ": pass --method " + names[0]
          : "its methods are " + llvm::join(names, ", ") + ": choose one with --method";
  // No forward: no model. Another method was the user's choice.
  ExitCode code = name == "forward" ? ExitCode::Unreadable : ExitCode::Usage;
  return makeError(code, path + ": no method " + name, help);
}

llvm::Expected<jit::Method> methodOf(const jit::Module &module, const std::string &path,
                                     const std::string &name) {
  std::optional<jit::Method> found = module.find_method(name);
  if (!found)
    return noSuchMethod(module, path, name);
  std::string line; // of the last node that has one: where the result is made
  if (auto *function = jit::tryToGraphFunction(found->function()))
    for (jit::Node *node : function->graph()->nodes().reverse())
      if (line.empty())
        line = sourceLineOf(node);
  TRY(checkResult(found->function().getSchema(),
                  name + " of " + path + (line.empty() ? "" : " at " + line)));
  return *found;
}

llvm::Expected<std::set<std::string>> keptModules(const jit::Module &module,
                                                  const std::vector<std::string> &names) {
  std::vector<std::string> known;
  for (const auto &inner : module.named_modules())
    known.push_back(inner.name);
  std::set<const void *> objects;
  for (llvm::StringRef name : names) {
    if (name.empty() || !llvm::is_contained(known, name))
      return makeError(
          ExitCode::Usage,
          fmt::format("--keep-eval: expected a module of the model, got {}", name.str()),
          didYouMean(name, known, "pipe-inspect MODEL.pt lists the modules"));
    for (const auto &inner : module.named_modules())
      if (inner.name == name || startsWith(inner.name, name.str() + "."))
        objects.insert(inner.value._ivalue().get());
  }
  std::set<std::string> paths;
  for (const auto &inner : module.named_modules())
    if (objects.count(inner.value._ivalue().get()))
      paths.insert(inner.name);
  return paths;
}

/// A training changes parameters. A buffer that requires a gradient is none: the optimizer of a
/// program in Python, made from model.parameters(), leaves it as it is.
static void trainOnlyParameters(const jit::Module &module) {
  std::set<const void *> parameters;
  for (const at::Tensor &parameter : module.parameters(/*recurse=*/true))
    parameters.insert(parameter.unsafeGetTensorImpl());
  for (const at::IValue &value : module.attributes(/*recurse=*/true))
    if (value.isTensor() && value.toTensor().defined() && value.toTensor().is_leaf() &&
        value.toTensor().requires_grad() &&
        parameters.count(value.toTensor().unsafeGetTensorImpl()) == 0)
      value.toTensor().set_requires_grad(false);
}

static llvm::Error setMode(jit::Module &module, const SourceMode &mode) {
  if (mode.training)
    module.train(*mode.training);
  std::set<std::string> kept = TRY(keptModules(module, mode.keepEval));
  for (const auto &inner : module.named_modules())
    if (kept.count(inner.name))
      jit::Module(inner.value).eval();
  return llvm::Error::success();
}

bool isPrint(const jit::Node *node) {
  return node->kind() == c10::prim::Print || node->kind() == c10::aten::warn;
}

void removePrints(jit::Block *block) {
  for (auto it = block->nodes().begin(); it != block->nodes().end(); ++it) {
    for (jit::Block *inner : it->blocks())
      removePrints(inner);
    if (it->hasAttribute(c10::attr::Subgraph))
      removePrints(it->g(c10::attr::Subgraph)->block());
    if (isPrint(*it))
      it.destroyCurrent();
  }
}

void removePrints(const jit::Module &module) {
  for (jit::Function *function : module._ivalue()->compilation_unit()->get_functions())
    if (auto *graphFunction = jit::tryToGraphFunction(*function))
      removePrints(graphFunction->graph()->block());
}

static llvm::Expected<JoinedLoss> addLoss(jit::Module &module, const std::string &path,
                                          const SourceMode &mode) {
  llvm::Expected<jit::Module> loss = loadMapped(mode.loss);
  if (!loss)
    return withContext(loss.takeError(), "--loss");
  jit::Method method = TRY(methodOf(module, path, mode.lossMethod));
  if (llvm::Expected<jit::Method> forward = methodOf(*loss, mode.loss, "forward"); !forward)
    return withContext(forward.takeError(), "--loss");
  JoinedLoss joined;
  auto join = [&]() -> llvm::Error {
    joined = TRY(joinLoss(module, mode.lossMethod, *loss));
    return llvm::Error::success();
  };
  TRY(guardTorchError(ExitCode::Unreadable, "--loss " + mode.loss, join));
  return joined;
}

llvm::Expected<SourceModule> loadJoined(const std::string &path, const SourceMode &mode) {
  SourceModule source;
  source.module = TRY(loadMapped(path));
  if (!mode.loss.empty())
    source.loss = TRY(addLoss(source.module, path, mode));
  if (mode.training == true)
    TRY(guardTorchVoid(ExitCode::Unreadable, path + ": setting what is trained",
                       [&] { trainOnlyParameters(source.module); }));
  return source;
}

llvm::Expected<SourceModule> loadSource(const std::string &path, const SourceMode &mode) {
  SourceModule source = TRY(loadJoined(path, mode));
  TRY(guardTorchError(ExitCode::Unreadable, path + ": setting training flags", [&] {
    const auto unit = source.module._ivalue()->compilation_unit();
    for (jit::Function *function : unit->get_functions())
      if (auto *graphFunction = jit::tryToGraphFunction(*function))
        insertLstmStateChecks(graphFunction->graph()->block());
    return setMode(source.module, mode);
  }));
  return source;
}

} // namespace pipec
