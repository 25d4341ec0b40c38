#include "ir/text/AttributeText.h"

#include "ir/Refusals.h"
#include "ir/TensorBytes.h"
#include "ir/plan/PlanNames.h"
#include "ir/support/Json.h"
#include "ir/support/Llvm.h"
#include "ir/support/Try.h"
#include "ir/support/WriteFile.h"
#include "ir/text/GraphText.h"
#include "ir/text/SignatureText.h"
#include "ir/text/ValueText.h"

#include <fmt/ranges.h>

#include <c10/util/strides.h>

#include <algorithm>

namespace pipec {
namespace {

namespace json = llvm::json;

constexpr size_t kMaxHexBytes = 256;

bool isDense(const at::Tensor &tensor) {
  return tensor.defined() && tensor.layout() == at::kStrided && !tensor.is_quantized();
}

bool hasOwnStrides(const at::Tensor &tensor) {
  return isDense(tensor) && tensor.strides() != c10::contiguous_strides(tensor.sizes());
}

/// Writes the elements beside the text and returns "@NAME". Equal weights have one file.
llvm::Expected<std::string> writeData(const at::Tensor &tensor, const std::string &digest,
                                      const std::string &directory) {
  const std::string name = digest.substr(0, 16) + ".bin", path = directory + "/" + name;
  if (std::error_code code = writeFile(path, elementBytes(tensor)))
    return failf(ExitCode::IO, "{}: cannot write: {}", path, code.message());
  return "@" + name;
}

bool isTensorType(llvm::StringRef type) { return dtypeFromText(type.split('[').first).has_value(); }

std::string innerName(const std::string &attribute, size_t index) {
  return fmt::format("{}[{}]", attribute, index);
}

/// None is spelled as LibTorch's type parser reads it, inside tuples too. Blanks stand only inside
/// brackets: one word.
std::string typeText(const c10::IValue &value) {
  if (value.isTensor()) // an undefined one cannot say its type
    return "Tensor";
  return value.type()->annotation_str([](const c10::Type &type) -> std::optional<std::string> {
    if (type.kind() == c10::TypeKind::NoneType)
      return "None";
    return std::nullopt;
  });
}

/// Tensors inside lists, tuples and dicts in the order in which they are printed.
void collectInner(const c10::IValue &value, std::vector<at::Tensor> &tensors) {
  if (value.isTensor())
    return;
  llvm::Expected<json::Value> unused =
      valueToJson(value, [&](const at::Tensor &tensor) -> llvm::Expected<json::Value> {
        if (tensor.defined())
          tensors.push_back(tensor);
        return nullptr;
      });
  if (!unused)
    llvm::consumeError(unused.takeError()); // an object has no tensors that could be read back
}

} // namespace

AttributePrinter::AttributePrinter(const std::vector<Attribute> &attributes,
                                   const TextOptions &options)
    : options_(options) {
  std::vector<at::Tensor> tensors;
  std::vector<int64_t> numbers; // of the attributes that are tensors; numbers of others follow
  int64_t next = 0;
  for (const Attribute &attribute : attributes) {
    if (!attribute.value.isTensor())
      continue;
    tensors.push_back(attribute.value.toTensor());
    numbers.push_back(attribute.storage);
    next = std::max(next, attribute.storage + 1);
  }
  for (const Attribute &attribute : attributes)
    collectInner(attribute.value, tensors);
  const std::vector<int64_t> groups = storageIds(tensors);
  std::map<int64_t, int64_t> numberOf;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (i < numbers.size()) {
      if (numbers[i] >= 0)
        numberOf.try_emplace(groups[i], numbers[i]);
      continue;
    }
    const auto [number, isNew] = numberOf.try_emplace(groups[i], next);
    next += isNew ? 1 : 0;
    innerStorages_.try_emplace(keyOf(tensors[i]), number->second);
  }
}

llvm::Expected<std::string> AttributePrinter::text(const Attribute &attribute) const {
  const bool isTensor = attribute.value.isTensor() && attribute.value.toTensor().defined();
  std::string what = TRY(isTensor ? tensorText(attribute) : valueText(attribute));
  return fmt::format("attribute {} {} {}{}", quotedWord(attribute.name),
                     toString(attribute.kind).str(), what,
                     attribute.otherNames.empty() ? "" : " also=" + listText(attribute.otherNames));
}

llvm::Expected<AttributePrinter::Elements>
AttributePrinter::elementsOf(const at::Tensor &tensor, const std::string &name) const {
  if (!options_.digests || !isDense(tensor))
    return Elements{};
  const std::string digest = tensorDigest(tensor);
  if (options_.notes) {
    const auto note = options_.notes->find(name);
    if (note != options_.notes->end() && note->second.digest == digest)
      return Elements{note->second.recorded, note->second.data};
  }
  if (options_.data != TextOptions::Data::None && tensor.nbytes() <= kMaxHexBytes)
    return Elements{digest, "bytes(" + hexText(elementBytes(tensor)) + ")"};
  if (options_.data != TextOptions::Data::Directory)
    return Elements{digest, "none"};
  std::string file = TRY(writeData(tensor, digest, options_.directory));
  return Elements{digest, file};
}

llvm::Expected<std::string> AttributePrinter::tensorText(const Attribute &attribute) const {
  const at::Tensor &tensor = attribute.value.toTensor();
  std::string out = tensorHeadText(tensor);
  if (hasOwnStrides(tensor))
    out += fmt::format(" strides=[{}]", fmt::join(tensor.strides(), ","));
  out += flagText("requires_grad", attribute.requiresGrad) + flagText("written", attribute.written);
  if (!tensor.is_cpu())
    out += " device=" + tensor.device().str();
  if (attribute.storage >= 0)
    out += fmt::format(" storage={}", attribute.storage);
  if (isDense(tensor) && tensor.storage_offset() != 0)
    out += fmt::format(" offset={}", tensor.storage_offset());
  Elements elements = TRY(elementsOf(tensor, attribute.name));
  if (!elements.data.empty())
    out += fmt::format(" sha256={} data={}", elements.sha256, elements.data);
  return out;
}

llvm::Expected<std::string> AttributePrinter::valueText(const Attribute &attribute) const {
  size_t index = 0;
  llvm::Expected<json::Value> value = valueToJson(attribute.value, [&](const at::Tensor &tensor) {
    return innerTensor(tensor, innerName(attribute.name, index++));
  });
  std::string text = "object"; // shown, but it cannot be read back
  if (value) {
    text = jsonText(*value);
  } else if (ErrorText error = describe(value.takeError()); error.code != ExitCode::Unsupported) {
    return makeError(error.code, error.message, error.help);
  }
  return typeText(attribute.value) + flagText("requires_grad", attribute.requiresGrad) +
         flagText("written", attribute.written) + " value=" + text;
}

/// The keys of a tensor's line as an object.
llvm::Expected<json::Value> AttributePrinter::innerTensor(const at::Tensor &tensor,
                                                          const std::string &name) const {
  if (!tensor.defined())
    return json::Object{{"tensor", nullptr}};
  if (!isDense(tensor) || !tensor.is_cpu() ||
      !dtypeFromText(llvm::StringRef(tensorHeadText(tensor)).split('[').first))
    return refuseWith(Refusal::NoTextForm,
                      fmt::format("a tensor {} inside a value", tensorHeadText(tensor)));
  json::Object object{{"tensor", tensorHeadText(tensor)}};
  if (hasOwnStrides(tensor))
    object["strides"] = json::Array(tensor.strides());
  if (tensor.requires_grad())
    object["requires_grad"] = true;
  if (const auto number = innerStorages_.find(keyOf(tensor)); number != innerStorages_.end())
    object["storage"] = number->second;
  if (tensor.storage_offset() != 0)
    object["offset"] = tensor.storage_offset();
  Elements elements = TRY(elementsOf(tensor, name));
  if (!elements.data.empty()) {
    object["sha256"] = elements.sha256;
    object["data"] = elements.data;
  }
  return json::Value(std::move(object));
}

void AttributeReader::add(TextLine &line) {
  Row row;
  TensorRow &tensor = row.tensor;
  tensor.line = line.number();
  tensor.name = row.attribute.name = line.word("the name of an attribute");
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
  tensor.requiresGrad = row.attribute.requiresGrad = line.flag("requires_grad");
  row.attribute.written = line.flag("written");
  tensor.storage = line.integerKey("storage").value_or(-1);
  tensor.offset = line.integerKey("offset").value_or(0);
  tensor.sha256 = line.key("sha256").value_or("");
  tensor.data = line.key("data").value_or("none");
  row.value = line.rawKey("value").value_or("null");
  if (const std::optional<std::string> device = line.key("device"))
    line.complain(fmt::format("device={}: text is read for the CPU only", *device));
  row.attribute.otherNames = line.listKey("also");
  rows_.push_back(std::move(row));
}

llvm::Expected<std::vector<Attribute>> AttributeReader::build() {
  const auto named = [](llvm::Error error, const Row &row) {
    return inAttribute(std::move(error), row.tensor.name, row.tensor.line);
  };
  // Attributes first: storage numbers of tensors inside values follow theirs.
  for (Row &row : rows_)
    if (isTensorType(row.type))
      if (llvm::Error error = addTensor(row))
        return named(std::move(error), row);
  for (Row &row : rows_)
    if (!isTensorType(row.type))
      if (llvm::Error error = addValue(row))
        return named(std::move(error), row);
  TRY(tensors_.build());
  std::vector<Attribute> attributes;
  size_t next = 0;
  for (Row &row : rows_) {
    const bool isTensor = isTensorType(row.type);
    row.attribute.storage = isTensor ? tensors_.storageOf(next++) : -1;
    attributes.push_back(std::move(row.attribute));
  }
  return attributes;
}

llvm::Error AttributeReader::addTensor(Row &row) {
  TensorHead head = TRY(tensorHeadFromText(row.type));
  row.tensor.head = head;
  if (row.strides) {
    row.tensor.strides.emplace();
    for (const std::string &text : *row.strides) {
      int64_t stride = -1;
      if (llvm::StringRef(text).getAsInteger(10, stride) || stride < 0)
        return failf(ExitCode::Unreadable, "strides: expected a number, got {}", text);
      row.tensor.strides->push_back(stride);
    }
  }
  at::Tensor tensor = TRY(tensors_.add(row.tensor));
  row.attribute.value = tensor;
  return llvm::Error::success();
}

llvm::Error AttributeReader::addValue(Row &row) {
  if (row.value == "object")
    return refuseWith(Refusal::NoTextForm, "an object of type " + row.type);
  c10::TypePtr type = TRY(row.type == "None" ? llvm::Expected<c10::TypePtr>(c10::NoneType::get())
                                             : typeFromText(row.type));
  llvm::Expected<json::Value> parsed = json::parse(row.value);
  if (!parsed)
    return makeError(ExitCode::Unreadable, "value: " + llvm::toString(parsed.takeError()));
  size_t index = 0;
  c10::IValue value = TRY(valueFromJson(*parsed, type, [&](const json::Value &tensor) {
    return addInner(tensor, innerName(row.tensor.name, index++), row.tensor.line);
  }));
  row.attribute.value = value;
  return llvm::Error::success();
}

llvm::Expected<at::Tensor> AttributeReader::addInner(const json::Value &value,
                                                     const std::string &name, size_t line) {
  const json::Object *object = value.getAsObject();
  if (object && object->size() == 1 && object->get("tensor") &&
      object->get("tensor")->kind() == json::Value::Null)
    return at::Tensor();
  const auto wrong = [&](const char *expected) {
    return failf(ExitCode::Unreadable, "expected {}, got {}", expected, jsonText(value));
  };
  if (!object || !object->getString("tensor"))
    return wrong("a tensor like {\"tensor\": \"float32[2]\"}");
  TensorRow row;
  row.name = name;
  row.line = line;
  for (const auto &[key, part] : *object) {
    if (key == "tensor") {
      TensorHead head = TRY(tensorHeadFromText(*part.getAsString()));
      row.head = head;
    } else if (key == "strides" && part.getAsArray()) {
      row.strides.emplace();
      for (const json::Value &stride : *part.getAsArray())
        row.strides->push_back(valueOr(stride.getAsInteger(), -1));
      if (llvm::any_of(*row.strides, [](int64_t stride) { return stride < 0; }))
        return wrong("strides of 0 or more");
    } else if (key == "storage" && part.getAsInteger()) {
      row.storage = *part.getAsInteger();
    } else if (key == "offset" && part.getAsInteger()) {
      row.offset = *part.getAsInteger();
    } else if (key == "requires_grad" && part.getAsBoolean()) {
      row.requiresGrad = *part.getAsBoolean();
    } else if (key == "sha256" && part.getAsString()) {
      row.sha256 = part.getAsString()->str();
    } else if (key == "data" && part.getAsString()) {
      row.data = part.getAsString()->str();
    } else {
      return failf(ExitCode::Unreadable, "a tensor has no key {} with the value {}",
                   llvm::StringRef(key).str(), jsonText(part));
    }
  }
  return tensors_.add(std::move(row));
}

} // namespace pipec
