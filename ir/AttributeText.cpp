#include "ir/AttributeText.h"

#include "ir/GraphText.h"
#include "ir/PlanText.h"
#include "ir/TensorBytes.h"
#include "ir/TensorText.h"
#include "ir/TextLine.h"
#include "ir/TorchError.h"
#include "ir/ValueText.h"
#include "ir/plan/Json.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"

#include <fmt/ranges.h>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/util/strides.h>

#include <algorithm>

namespace pipec {
namespace {

constexpr size_t kMaxHexBytes = 256;

bool isDense(const at::Tensor &tensor) {
  return tensor.defined() && tensor.layout() == at::kStrided && !tensor.is_quantized();
}

/// Writes the elements beside the text and returns "@NAME". Equal weights have one file.
llvm::Expected<std::string> writeData(const at::Tensor &tensor, const std::string &digest,
                                      const std::string &directory) {
  const std::string name = digest.substr(0, 16) + ".bin", path = directory + "/" + name;
  std::error_code code;
  llvm::raw_fd_ostream out(path, code);
  if (!code) {
    out << elementBytes(tensor);
    out.close();
    code = out.error();
    out.clear_error();
  }
  if (code)
    return failf(ExitCode::IO, "{}: cannot write: {}", path, code.message());
  return "@" + name;
}

llvm::Expected<std::string> tensorDataText(const Attribute &attribute, const TextOptions &options) {
  const at::Tensor &tensor = attribute.value.toTensor();
  if (!options.digests || !isDense(tensor))
    return "";
  const std::string digest = tensorDigest(tensor);
  if (options.notes) {
    const auto note = options.notes->find(attribute.name);
    if (note != options.notes->end() && note->second.digest == digest)
      return fmt::format(" sha256={} data={}", note->second.recorded, note->second.data);
  }
  std::string data = "none";
  if (options.data != TextOptions::Data::None && tensor.nbytes() <= kMaxHexBytes) {
    data = "bytes(" + hexText(elementBytes(tensor)) + ")";
  } else if (options.data == TextOptions::Data::Directory) {
    llvm::Expected<std::string> file = writeData(tensor, digest, options.directory);
    if (!file)
      return file.takeError();
    data = *file;
  }
  return fmt::format(" sha256={} data={}", digest, data);
}

bool isTensorType(llvm::StringRef type) { return dtypeFromText(type.split('[').first).has_value(); }

llvm::Error inAttribute(llvm::Error error, const std::string &name, size_t line) {
  return withContext(std::move(error), fmt::format("line {}: attribute {}", line, name));
}

} // namespace

llvm::Expected<std::string> attributeText(const Attribute &attribute, const TextOptions &options) {
  std::string out =
      fmt::format("attribute {} {} ", quotedWord(attribute.name), toString(attribute.kind).str());
  const std::string flags =
      flagText("requires_grad", attribute.requiresGrad) + flagText("written", attribute.written);
  const std::string also =
      attribute.otherNames.empty() ? "" : " also=" + listText(attribute.otherNames);
  if (!attribute.value.isTensor() || !attribute.value.toTensor().defined()) {
    const c10::TypePtr type = attribute.value.type();
    out += type->annotation_str() + flags; // blanks only inside brackets: one word
    llvm::Expected<llvm::json::Value> json = valueToJson(attribute.value);
    if (!json) {
      llvm::consumeError(json.takeError()); // an object: shown, but it cannot be read back
      return out + " value=object" + also;
    }
    return out + " value=" + jsonText(*json) + also;
  }
  const at::Tensor &tensor = attribute.value.toTensor();
  out += tensorHeadText(tensor);
  if (isDense(tensor) && tensor.strides() != c10::contiguous_strides(tensor.sizes()))
    out += fmt::format(" strides=[{}]", fmt::join(tensor.strides(), ","));
  out += flags;
  if (!tensor.is_cpu())
    out += " device=" + tensor.device().str();
  if (attribute.storage >= 0)
    out += fmt::format(" storage={}", attribute.storage);
  if (isDense(tensor) && tensor.storage_offset() != 0)
    out += fmt::format(" offset={}", tensor.storage_offset());
  llvm::Expected<std::string> data = tensorDataText(attribute, options);
  if (!data)
    return data.takeError();
  return out + *data + also;
}

void AttributeReader::add(TextLine &line) {
  Row row;
  row.line = line.number();
  row.attribute.name = line.word("the name of an attribute");
  llvm::Expected<AttributeKind> kind = parseAttributeKind(line.word("the kind of an attribute"));
  if (kind)
    row.attribute.kind = *kind;
  else
    line.complain(describe(kind.takeError()).message);
  row.type = line.word("dtype[sizes] or a type");
  if (const std::optional<std::string> strides = line.key("strides")) {
    row.strides = splitList(*strides);
    if (!row.strides)
      line.complain("strides: expected a list, got " + *strides);
  }
  row.attribute.requiresGrad = line.flag("requires_grad");
  row.attribute.written = line.flag("written");
  row.attribute.storage = line.integerKey("storage").value_or(-1);
  row.offset = line.integerKey("offset").value_or(0);
  row.sha256 = line.key("sha256").value_or("");
  row.data = line.key("data").value_or("none");
  row.value = line.rawKey("value").value_or("null");
  if (const std::optional<std::string> device = line.key("device"))
    line.complain(fmt::format("device={}: text is read for the CPU only", *device));
  row.attribute.otherNames = line.listKey("also");
  rows_.push_back(std::move(row));
}

llvm::Expected<std::vector<Attribute>> AttributeReader::build() {
  // Numbers in the text are labels: memory is numbered by first encounter, a line without a number
  // shares with nobody.
  std::map<int64_t, int64_t> labels;
  int64_t next = 0;
  for (Row &row : rows_) {
    if (isTensorType(row.type)) {
      int64_t &storage = row.attribute.storage;
      const bool fresh = storage < 0 || labels.try_emplace(storage, next).second;
      storage = fresh ? next++ : labels[storage];
      continue;
    }
    if (llvm::Error error = build(row))
      return inAttribute(std::move(error), row.attribute.name, row.line);
  }
  if (llvm::Error error = buildTensors())
    return error;
  std::vector<Attribute> attributes;
  for (Row &row : rows_)
    attributes.push_back(std::move(row.attribute));
  return attributes;
}

llvm::Error AttributeReader::build(Row &row) {
  if (row.value == "object")
    return makeError(ExitCode::Unsupported,
                     fmt::format("an object of type {} has no text form", row.type),
                     "read the model from its file");
  llvm::Expected<c10::TypePtr> type = row.type == "NoneType"
                                          ? llvm::Expected<c10::TypePtr>(c10::NoneType::get())
                                          : typeFromText(row.type);
  if (!type)
    return type.takeError();
  llvm::Expected<llvm::json::Value> json = llvm::json::parse(row.value);
  if (!json)
    return makeError(ExitCode::Unreadable, "value: " + llvm::toString(json.takeError()));
  llvm::Expected<c10::IValue> value = valueFromJson(*json, *type);
  if (!value)
    return value.takeError();
  row.attribute.value = *value;
  return llvm::Error::success();
}

llvm::Error AttributeReader::buildTensors() {
  std::vector<std::optional<View>> views(rows_.size());
  std::map<int64_t, int64_t> bytes; // of each storage
  for (size_t i = 0; i < rows_.size(); ++i) {
    const Row &row = rows_[i];
    if (!isTensorType(row.type))
      continue;
    llvm::Expected<View> view = viewOf(row);
    if (!view)
      return inAttribute(view.takeError(), row.attribute.name, row.line);
    int64_t &total = bytes[row.attribute.storage];
    total = std::max(total, view->extent);
    views[i] = std::move(*view);
  }
  std::map<int64_t, at::Tensor> storages; // one row of bytes each
  for (const auto &[number, size] : bytes)
    if (llvm::Error error = guardTorchVoid(
            ExitCode::Unreadable, fmt::format("storage {} of {} bytes", number, size),
            [&] { storages[number] = at::zeros({size}, at::kByte); }))
      return error;
  for (size_t i = 0; i < rows_.size(); ++i) {
    Row &row = rows_[i];
    if (!views[i])
      continue;
    llvm::Error filled = llvm::Error::success();
    llvm::Error built = guardTorchVoid(ExitCode::Unreadable, "building the tensor", [&] {
      at::Tensor tensor = at::empty({0}, at::TensorOptions(views[i]->dtype));
      tensor.set_(storages[row.attribute.storage].storage(), row.offset, views[i]->sizes,
                  views[i]->strides);
      row.attribute.value = tensor;
      filled = fill(row);
    });
    if (llvm::Error error = llvm::joinErrors(std::move(built), std::move(filled)))
      return inAttribute(std::move(error), row.attribute.name, row.line);
  }
  return llvm::Error::success();
}

/// How a line's tensor lies in its storage.
llvm::Expected<AttributeReader::View> AttributeReader::viewOf(const Row &row) {
  llvm::Expected<TensorHead> head = tensorHeadFromText(row.type);
  if (!head)
    return head.takeError();
  View view{head->sizes, at::IntArrayRef(c10::contiguous_strides(head->sizes)).vec(), head->dtype,
            0};
  if (row.strides) {
    view.strides.clear();
    for (const std::string &text : *row.strides) {
      int64_t stride = -1;
      if (llvm::StringRef(text).getAsInteger(10, stride) || stride < 0)
        return failf(ExitCode::Unreadable, "strides: expected a number, got {}", text);
      view.strides.push_back(stride);
    }
  }
  if (view.strides.size() != view.sizes.size() || row.offset < 0)
    return failf(ExitCode::Unreadable, "expected {} strides and no negative offset, got {} and {}",
                 view.sizes.size(), view.strides.size(), row.offset);
  // One past the last element; checked, because sizes come from a file.
  int64_t end = row.offset;
  bool overflow = __builtin_add_overflow(end, 1, &end);
  for (size_t d = 0; d < view.sizes.size(); ++d) {
    int64_t reach = 0;
    overflow |=
        view.sizes[d] > 0 && (__builtin_mul_overflow(view.sizes[d] - 1, view.strides[d], &reach) ||
                              __builtin_add_overflow(end, reach, &end));
  }
  overflow |=
      __builtin_mul_overflow(end, static_cast<int64_t>(c10::elementSize(view.dtype)), &view.extent);
  if (overflow)
    return failf(ExitCode::Unreadable, "its sizes and strides reach beyond the address space");
  return view;
}

llvm::Error AttributeReader::fill(Row &row) {
  at::Tensor tensor = row.attribute.value.toTensor();
  llvm::StringRef data = row.data;
  uint64_t seed = 0;
  if (data.consume_front("seed(") && data.consume_back(")") && !data.getAsInteger(10, seed)) {
    fillFromSeed(tensor, seed);
  } else if (data = row.data; data.consume_front("bytes(") && data.consume_back(")")) {
    const std::optional<std::string> bytes = parseHex(data);
    if (!bytes)
      return failf(ExitCode::Unreadable, "data: expected hex digits, got {}", data.str());
    if (llvm::Error error = setElements(tensor, *bytes))
      return error;
  } else if (data = row.data; data.consume_front("@")) {
    if (data.contains('/') || data.empty() || data.startswith("."))
      return failf(ExitCode::Unreadable,
                   "data: expected the name of a file beside the text, got {}", data.str());
    const std::string path = directory_ + "/" + data.str();
    auto buffer = llvm::MemoryBuffer::getFile(path);
    if (!buffer)
      return failf(ExitCode::IO, "{}: cannot read: {}", path, buffer.getError().message());
    if (llvm::Error error = setElements(tensor, (*buffer)->getBuffer()))
      return error;
  } else if (row.data != "none") {
    return failf(ExitCode::Unreadable, "data: expected seed(N), bytes(HEX), @FILE or none, got {}",
                 row.data);
  }
  const std::string digest = tensorDigest(tensor);
  if (row.data != "none" && !row.sha256.empty() && row.sha256 != digest)
    return failf(ExitCode::Unreadable, "sha256: expected {}, got {}", row.sha256, digest);
  notes_[row.attribute.name] = {digest, row.sha256.empty() ? digest : row.sha256, row.data};
  if (row.attribute.requiresGrad && (tensor.is_floating_point() || tensor.is_complex()))
    tensor.set_requires_grad(true);
  return llvm::Error::success();
}

} // namespace pipec
