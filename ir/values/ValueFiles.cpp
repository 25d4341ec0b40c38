#include "ir/values/ValueFiles.h"

#include "ir/values/MapTensors.h"
// Values files: the format of torch.save and of the default torch.load.
#include "ir/Refusals.h"
#include "ir/TorchError.h"
#include "ir/support/CannotWrite.h"
#include "ir/support/FirstLine.h"
#include "ir/support/Llvm.h"
#include "ir/support/NewFile.h"
#include "ir/support/Try.h"
#include "ir/torchfile/TorchArchive.h"
#include "ir/values/NewDtypes.h"
#include "ir/values/PickledNumbers.h"
#include "llvm/ADT/StringRef.h"

#include <ATen/core/Dict.h>
#include <ATen/core/List.h>
#include <ATen/core/jit_type.h>
#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/serialization/import_read.h>
#include <torch/csrc/jit/serialization/pickler.h>

#include <cstring>

namespace pipec {

namespace {

/// A failure of LibTorch's reader, in the user's words: the content that has no value form, and
/// what to save instead.
struct KnownFailure {
  llvm::StringLiteral symptom; // in LibTorch's message
  const char *what;            // {} is the word that follows the symptom
  const char *help;
};

const char *kAllowed = "a values file holds tensors, numbers, strings, bools and None in tuples, "
                       "lists and dicts, written by torch.save";

constexpr const char *kCannotReadValues = "LibTorch cannot read these values";

constexpr KnownFailure kKnownFailures[] = {
    {"Expected GenericDict",
     "holds an OrderedDict (such as a state_dict) or an object where a plain dict is expected",
     "save dict(value) instead"},
    {"numpy", "holds a NumPy object", "convert it: torch.as_tensor(value)"},
    {"Expected length to be 8", "holds a whole number that does not fit int64",
     "save it as a float or as a string"},
    {"torch.serialization._get_layout", "holds a sparse tensor", "save its value.to_dense()"},
    {"torch._utils._rebuild_meta_tensor_no_storage",
     "holds a tensor on the meta device, which has no elements", "save tensors with values"},
    {"unknown type ", "holds an object of type {}", nullptr},
    {"Unknown pickler class id", "holds an object of type {}", nullptr},
    {"unknown torch global, ", "holds an object of type {}", nullptr},
};

llvm::Error explainUnpickling(TorchArchive &archive, llvm::Error error) {
  ErrorText text = describe(std::move(error));
  const std::string &path = archive.path();
  // The file as a whole may be something else, such as a state dict or a module.
  if (const FileKind kind = kindOfFile(archive.bytes()); !kind.asValues.empty())
    return notWanted(path, Wanted::Inputs, archive.bytes(), "");
  llvm::StringRef message = text.message;
  for (const KnownFailure &refusal : kKnownFailures) {
    size_t at = message.find(refusal.symptom);
    if (at == llvm::StringRef::npos)
      continue;
    llvm::StringRef word = message.drop_front(at + refusal.symptom.size()).take_until([](char c) {
      return isspace(c);
    });
    std::string what = fmt::format(fmt::runtime(refusal.what), word.trim("'.").str());
    return makeError(text.code, path + ": " + what, refusal.help ? refusal.help : kAllowed);
  }
  return makeError(text.code, withFirstLine(path + ": " + kCannotReadValues, message), kAllowed);
}

/// What readArchiveAndTensors() does, with another pickle than the file's.
c10::IValue readPickle(llvm::StringRef pickle, caffe2::serialize::PyTorchStreamReader &reader) {
  auto bytes = [&](char *to, size_t wanted) {
    const size_t size = std::min(wanted, pickle.size());
    std::memcpy(to, pickle.data(), size);
    pickle = pickle.drop_front(size);
    return size;
  };
  auto storage = [&](const std::string &name) {
    return std::get<0>(reader.getRecord("data/" + name));
  };
  torch::jit::Unpickler unpickler(bytes, nullptr, nullptr, storage, at::Device(at::kCPU));
  unpickler.set_version(reader.version());
  return unpickler.parse_ivalue();
}

/// A tensor whose storage holds its own elements and nothing else, on the CPU, without autograd;
/// dense strides stay.
c10::IValue plainTensor(const at::Tensor &tensor, NewDtypeTensors &apart) {
  if (!tensor.defined() || !tensor.has_storage())
    return tensor;
  at::Tensor plain = tensor.detach().cpu().resolve_conj().resolve_neg();
  bool whole =
      plain.storage_offset() == 0 && plain.storage().nbytes() == plain.numel() * plain.itemsize();
  if (!whole)
    plain = plain.clone();
  return isNewDtype(plain.scalar_type()) ? c10::IValue(apart.standIn(plain)) : plain;
}

/// The tree in types that pickle without LibTorch's own tags, which the default torch.load refuses.
/// Tensors of new dtypes leave it for `apart`.
c10::IValue plainTree(const c10::IValue &value, NewDtypeTensors &apart) {
  if (value.isTensor())
    return plainTensor(value.toTensor(), apart);
  if (value.isTuple()) {
    std::vector<c10::IValue> elements;
    for (const c10::IValue &element : value.toTupleRef().elements())
      elements.push_back(plainTree(element, apart));
    return c10::ivalue::Tuple::create(std::move(elements));
  }
  if (value.isList()) {
    c10::impl::GenericList list(c10::AnyType::get());
    for (const c10::IValue &element : value.toListRef())
      list.push_back(plainTree(element, apart));
    return list;
  }
  if (value.isGenericDict()) {
    c10::impl::GenericDict dict(c10::AnyType::get(), c10::AnyType::get());
    for (const auto &entry : value.toGenericDict())
      dict.insert(plainTree(entry.key(), apart), plainTree(entry.value(), apart));
    return dict;
  }
  return value; // a number, a text or None, as checkPlain() found
}

/// The kind of a value in the tree that has no plain form, or empty.
std::string kindWithoutPlainForm(const c10::IValue &value) {
  std::vector<c10::IValue> parts;
  if (value.isTuple()) {
    parts = value.toTupleRef().elements().vec();
  } else if (value.isList()) {
    parts = value.toListRef().vec();
  } else if (value.isGenericDict()) {
    for (const auto &entry : value.toGenericDict())
      parts.insert(parts.end(), {entry.key(), entry.value()});
  } else {
    bool plain = value.isTensor() || value.isNone() || value.isInt() || value.isDouble() ||
                 value.isBool() || value.isString() || value.isComplexDouble();
    return plain ? "" : value.tagKind();
  }
  for (const c10::IValue &part : parts)
    if (std::string kind = kindWithoutPlainForm(part); !kind.empty())
      return kind;
  return "";
}

/// The check of a value, for types that do not decide it before the run.
llvm::Error checkPlain(const std::string &where, const c10::IValue &value) {
  std::string kind = kindWithoutPlainForm(value);
  if (kind.empty())
    return llvm::Error::success();
  return refuseWith(Refusal::ResultWithoutForm, where, "a value of type " + kind, kind);
}

/// LibTorch writes these in a form that torch.load does not read.
llvm::Error checkDense(const c10::IValue &value) {
  std::string layout;
  forEachTensor(value, [&](const at::Tensor &tensor) {
    if (tensor.defined() && tensor.layout() != at::kStrided && layout.empty())
      layout = fmt::format("{}", c10::toString(tensor.layout()));
  });
  return layout.empty() ? llvm::Error::success()
                        : makeError(ExitCode::Other,
                                    "values with a sparse tensor (" + layout +
                                        ") cannot be written to a file that torch.load reads",
                                    "return x.to_dense() from the model");
}

using Sink = std::function<size_t(const void *, size_t)>;

/// The layout of torch.save: data.pkl, byteorder, data/N, version, .data/serialization_id under the
/// folder "archive".
void writeArchive(const c10::IValue &value, const Sink &sink) {
  std::string pickle;
  torch::jit::Pickler pickler([&](const char *bytes, size_t n) { pickle.append(bytes, n); },
                              nullptr, nullptr, nullptr, nullptr,
                              /*tag_aggregates=*/false);
  pickler.protocol();
  NewDtypeTensors apart;
  pickler.pushIValue(plainTree(value, apart));
  pickler.stop();
  std::vector<at::Tensor> tensors = pickler.tensorData();
  pickle = apart.placedIn(std::move(pickle), tensors.size());
  tensors.insert(tensors.end(), apart.tensors().begin(), apart.tensors().end());

  caffe2::serialize::PyTorchStreamWriter writer(sink);
  writer.writeRecord("data.pkl", pickle.data(), pickle.size());
  writer.writeRecord("byteorder", "little", 6);
  size_t index = 0;
  for (const at::Tensor &tensor : tensors)
    writer.writeRecord(fmt::format("data/{}", index++), tensor.storage().data(),
                       tensor.storage().nbytes());
  writer.writeEndOfFile();
}

llvm::Error refuseNewDtype(const std::string &path, const NewDtypeTensor &tensor) {
  const std::string where = tensor.record.empty() ? "a tensor" : "the tensor in " + tensor.record;
  const char *readable = startsWith(tensor.dtype, "float")     ? "float32"
                         : startsWith(tensor.dtype, "complex") ? "complex64"
                                                               : "int64";
  return refuseWith(Refusal::ValuesDtype, path, where, tensor.dtype, readable, tensor.dtype);
}

} // namespace

llvm::Expected<c10::IValue> readValue(const std::string &path) {
  auto archive = TRY(TorchArchive::open(path, Wanted::Inputs));
  if (!archive->has("data.pkl") || archive->has("constants.pkl"))
    return notWanted(path, Wanted::Inputs, archive->bytes(),
                     "expected values that torch.save wrote, got a zip archive without data.pkl");
  auto pickle = guardTorch(ExitCode::Unreadable, path + ": " + kCannotReadValues,
                           [&] { return archive->text("data.pkl"); });
  if (!pickle)
    return explainUnpickling(*archive, pickle.takeError());
  if (const auto tensor = findNewDtype(*pickle); tensor && !tensor->dtype.empty())
    return refuseNewDtype(path, *tensor);
  TRY(checkByteOrder(*archive, "tensors"));
  const std::optional<std::string> readable = withNumbersOf8Bytes(*pickle);
  auto value = guardTorch(ExitCode::Unreadable, path + ": " + kCannotReadValues, [&] {
    if (readable)
      return readPickle(*readable, archive->reader());
    // Tensors saved from any device arrive on the CPU.
    return torch::jit::readArchiveAndTensors("data", "", "", std::nullopt, std::nullopt,
                                             at::Device(at::kCPU), archive->reader());
  });
  if (!value)
    return explainUnpickling(*archive, value.takeError());
  return value;
}

llvm::Expected<Arguments> readArguments(const std::string &path) {
  const c10::IValue value = TRY(readValue(path));
  return argumentsOfValue(path, value);
}

llvm::Expected<Arguments> argumentsOfValue(const std::string &what, const c10::IValue &value) {
  Arguments arguments;
  if (value.isTuple()) {
    arguments.positional = value.toTupleRef().elements().vec();
  } else if (value.isList()) {
    arguments.positional = value.toListRef().vec();
  } else if (value.isTensor()) {
    arguments.positional.push_back(value);
  } else if (value.isGenericDict()) {
    for (const auto &entry : value.toGenericDict()) {
      if (!entry.key().isString())
        return failf(ExitCode::Unreadable,
                     "{}: expected a dict of arguments with names as keys, got a key of type {}",
                     what, entry.key().tagKind());
      arguments.keyword.emplace_back(entry.key().toStringRef(), entry.value());
    }
  } else {
    return failf(
        ExitCode::Unreadable,
        "{}: expected arguments as a tuple, list, dict or tensor, got one value of type {}", what,
        value.tagKind());
  }
  return arguments;
}

llvm::Error writeValue(const std::string &path, const c10::IValue &value) {
  if (llvm::Error error = checkDense(value))
    return withContext(std::move(error), path);
  TRY(checkPlain(path, value));
  NewFile file(path);
  auto failure = [&] { return cannotWrite(path, file.error()); };
  if (file.error())
    return failure();
  llvm::Error error =
      guardTorchVoid(ExitCode::Other, path + ": LibTorch cannot write these values", [&] {
        // The writer's destructor throws after a short write: pretend that all went well, and
        // the file remembers the truth.
        writeArchive(value, [&](const void *data, size_t n) {
          file.write(data, n);
          return n;
        });
      });
  if (error)
    return error;
  file.publish();
  return file.error() ? failure() : llvm::Error::success();
}

} // namespace pipec
