#include "ir/checkpoint/CheckpointValues.h"

#include "ir/TorchError.h"
#include "ir/batch/TensorSpecs.h"
#include "ir/support/Try.h"
#include "ir/values/MapTensors.h"
#include "ir/values/NewDtypes.h"
#include "ir/values/ValueFiles.h"

#include <fmt/ranges.h>

#include <ATen/core/Dict.h>
#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/jit_type.h>
#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <c10/core/GradMode.h>

#include <array>
#include <filesystem>

namespace pipec {

namespace {

using Dict = c10::impl::GenericDict;

Dict emptyDict() { return Dict(c10::AnyType::get(), c10::AnyType::get()); }

/// A sparse tensor has no form in a file, but its parts have: the momentum of sparse gradients.
c10::IValue packed(const c10::IValue &value) {
  if (!value.isTensor() || !value.toTensor().defined() || !value.toTensor().is_sparse())
    return value;
  const at::Tensor &tensor = value.toTensor();
  Dict parts = emptyDict();
  parts.insert("indices", tensor._indices());
  parts.insert("values", tensor._values());
  parts.insert("size", tensor.sizes().vec());
  parts.insert("coalesced", tensor.is_coalesced());
  return parts;
}

c10::IValue unpacked(const c10::IValue &value) {
  if (!value.isGenericDict())
    return value;
  const Dict parts = value.toGenericDict();
  std::vector<int64_t> size;
  for (const c10::IValue &each : parts.at("size").toListRef())
    size.push_back(each.toInt());
  at::Tensor tensor = at::_sparse_coo_tensor_unsafe(parts.at("indices").toTensor().clone(),
                                                    parts.at("values").toTensor().clone(), size);
  return tensor._coalesced_(parts.at("coalesced").toBool());
}

std::string described(const std::string &dtype, llvm::ArrayRef<int64_t> shape) {
  return fmt::format("{}[{}]", dtype, fmt::join(shape.begin(), shape.end(), ", "));
}

/// LibTorch's reader does not know the newest dtypes. Values that could not be read back are not
/// written.
llvm::Error checkReadable(const SavedValue &saved) {
  bool isReadable = true;
  auto look = [&](const at::Tensor &tensor) {
    isReadable = isReadable && !(tensor.defined() && isNewDtype(tensor.scalar_type())) &&
                 !(tensor.defined() && tensor.is_quantized());
  };
  forEachTensor(saved.value, look);
  if (isReadable)
    return llvm::Error::success();
  return makeError(ExitCode::Usage,
                   fmt::format("checkpoint: {}: expected a dtype that LibTorch reads from files, "
                               "got {}",
                               saved.about.name, saved.about.dtype),
                   "");
}

void describeSaved(SavedValue &saved) {
  CheckpointEntry &about = saved.about;
  if (about.kind != AttributeKind::Value) {
    const at::Tensor &tensor = saved.value.toTensor();
    about.dtype = specOf(tensor).dtype;
    about.shape = tensor.sizes().vec();
  }
  about.optimizer.clear();
  for (const auto &[key, value] : saved.optimizer)
    about.optimizer.push_back(key);
}

/// A full disk gets the numbers that help.
llvm::Error withSpace(llvm::Error error, const std::string &directory) {
  ErrorText text = describe(std::move(error));
  std::error_code code;
  const std::filesystem::space_info space = std::filesystem::space(directory, code);
  if (text.code == ExitCode::IO && !code && text.help.empty())
    text.help = fmt::format("{} bytes are free there; free some space, or pass another "
                            "--checkpoint directory",
                            space.available);
  return makeError(text.code, text.message, text.help);
}

} // namespace

llvm::Expected<CheckpointFile> writeSaved(const std::string &directory, const std::string &name,
                                          std::vector<SavedValue> values) {
  CheckpointFile file;
  file.name = name;
  Dict state = emptyDict(), optimizer = emptyDict();
  llvm::Error error = guardTorchError(ExitCode::Other, "checkpoint", [&]() -> llvm::Error {
    c10::AutoGradMode noGrad(false);
    for (SavedValue &saved : values) {
      describeSaved(saved);
      TRY(checkReadable(saved));
      state.insert(saved.about.name, saved.value);
      Dict own = emptyDict();
      for (const auto &[key, value] : saved.optimizer)
        own.insert(key, packed(value));
      if (!saved.optimizer.empty())
        optimizer.insert(saved.about.name, own);
      file.entries.push_back(saved.about);
    }
    return llvm::Error::success();
  });
  if (error)
    return std::move(error);
  Dict whole = emptyDict();
  whole.insert("state", state);
  whole.insert("optimizer", optimizer);
  if (llvm::Error failed = writeValue(directory + "/" + name, whole))
    return withSpace(std::move(failed), directory);
  return file;
}

namespace {

/// Whether it is what writeSaved() writes, without its values.
bool hasParts(const c10::IValue &content) {
  if (!content.isGenericDict())
    return false;
  const Dict whole = content.toGenericDict();
  return llvm::all_of(std::array<const char *, 2>{"state", "optimizer"}, [&](const char *key) {
    return whole.contains(key) && whole.at(key).isGenericDict();
  });
}

/// One file, entry by entry. Throws LibTorch's exceptions where the tree has another form.
class FileReader {
public:
  FileReader(const CheckpointFile &file, const c10::IValue &content)
      : file_(file), state_(content.toGenericDict().at("state").toGenericDict()),
        optimizer_(content.toGenericDict().at("optimizer").toGenericDict()) {}

  llvm::Error read(std::vector<SavedValue> &values) {
    size_t optimized = 0;
    for (const CheckpointEntry &entry : file_.entries) {
      SavedValue saved{entry, {}, {}};
      if (!state_.contains(entry.name))
        return bad(entry.name, "expected a value, got none");
      saved.value = state_.at(entry.name);
      if (entry.kind != AttributeKind::Value)
        TRY(checkTensor(entry, saved.value));
      saved.value = mapTensors(saved.value, [](const at::Tensor &each) { return each.clone(); });
      TRY(readOptimizer(entry, saved.optimizer));
      optimized += !entry.optimizer.empty();
      values.push_back(std::move(saved));
    }
    if (state_.size() != file_.entries.size() || optimizer_.size() != optimized)
      return failf(ExitCode::BadArtifact,
                   "{}: expected {} values and {} optimizer states, got {} "
                   "and {}",
                   file_.name, file_.entries.size(), optimized, state_.size(), optimizer_.size());
    return llvm::Error::success();
  }

private:
  llvm::Error bad(const std::string &name, const std::string &what) const {
    return failf(ExitCode::BadArtifact, "{}: {}: {}", file_.name, name, what);
  }

  llvm::Error checkTensor(const CheckpointEntry &entry, const c10::IValue &value) const {
    if (!value.isTensor())
      return bad(entry.name, "expected a tensor, got a " + value.tagKind());
    const at::Tensor &tensor = value.toTensor();
    const std::string expected = described(entry.dtype, entry.shape);
    const std::string got = described(specOf(tensor).dtype, tensor.sizes().vec());
    return expected == got ? llvm::Error::success()
                           : bad(entry.name, fmt::format("expected {}, got {}", expected, got));
  }

  llvm::Error readOptimizer(const CheckpointEntry &entry, OptimizerState &state) const {
    if (entry.optimizer.empty())
      return llvm::Error::success();
    if (!optimizer_.contains(entry.name))
      return bad(entry.name, "expected a state of the optimizer, got none");
    const Dict own = optimizer_.at(entry.name).toGenericDict();
    for (const std::string &key : entry.optimizer) {
      if (!own.contains(key))
        return bad(entry.name, "expected " + key + " of the optimizer, got none");
      state.emplace_back(key, unpacked(mapTensors(own.at(key), [](const at::Tensor &each) {
                           return each.clone();
                         })));
    }
    return own.size() == entry.optimizer.size()
               ? llvm::Error::success()
               : bad(entry.name, "more states of the optimizer than checkpoint.json names");
  }

  const CheckpointFile &file_;
  Dict state_, optimizer_;
};

} // namespace

llvm::Expected<CheckpointValues> CheckpointValues::read(const OpenedCheckpoint &checkpoint) {
  CheckpointValues result;
  for (const CheckpointFile &file : checkpoint.text.files) {
    llvm::Expected<c10::IValue> content = readValue(checkpoint.directory + "/" + file.name);
    if (!content) { // its digest was right: nothing that pipec wrote
      ErrorText text = describe(content.takeError());
      return makeError(text.code == ExitCode::Unreadable ? ExitCode::BadArtifact : text.code,
                       text.message, text.help);
    }
    if (!hasParts(*content))
      return failf(ExitCode::BadArtifact,
                   "{}/{}: not the values of a checkpoint: expected a dict of the dicts state and "
                   "optimizer, got something else",
                   checkpoint.directory, file.name);
    if (llvm::Error error = guardTorchError(
            ExitCode::BadArtifact,
            checkpoint.directory + "/" + file.name + ": not the values of a checkpoint",
            [&] { return FileReader(file, *content).read(result.values_); }))
      return withContext(std::move(error), checkpoint.directory);
  }
  for (size_t i = 0; i < result.values_.size(); ++i) {
    const CheckpointEntry &about = result.values_[i].about;
    result.byName_[about.name] = i;
    for (const std::string &other : about.otherNames)
      result.byName_[other] = i;
  }
  return result;
}

llvm::Expected<ReadCheckpoint> readCheckpoint(const std::string &path, WhichCheckpoint which,
                                              CheckValues check) {
  ReadCheckpoint result;
  auto read = [&](const OpenedCheckpoint &found) -> llvm::Error {
    result.values = TRY(CheckpointValues::read(found));
    return check(found, result.values);
  };
  result.opened = TRY(someCheckpoint(path, which, read));
  return result;
}

const SavedValue *CheckpointValues::find(const std::string &name) const {
  const auto found = byName_.find(name);
  return found == byName_.end() ? nullptr : &values_[found->second];
}

const SavedValue *CheckpointValues::findAny(llvm::ArrayRef<std::string> names) const {
  for (const std::string &name : names)
    if (const SavedValue *saved = find(name))
      return saved;
  return nullptr;
}

} // namespace pipec
