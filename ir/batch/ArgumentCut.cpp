#include "ir/batch/ArgumentCut.h"

#include "ir/plan/OutputPath.h"
#include "ir/support/Llvm.h"
#include "ir/support/Words.h"
#include "ir/values/MapTensors.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

#include <ATen/core/Tensor.h>
#include <ATen/core/jit_type.h>

namespace pipec {

namespace {

std::string below(const std::string &path, const std::string &key) {
  return path.empty() ? key : path + "." + key;
}

void collect(const c10::IValue &value, const std::string &path,
             std::vector<std::pair<std::string, at::Tensor>> &tensors) {
  if (value.isTensor()) {
    tensors.emplace_back(path, value.toTensor());
  } else if (value.isTuple()) {
    const auto type = value.type()->expect<c10::TupleType>();
    const auto &elements = value.toTupleRef().elements();
    for (size_t i = 0; i < elements.size(); ++i)
      collect(elements[i],
              below(path, type->schema() ? pathKey(type->schema()->arguments()[i].name())
                                         : std::to_string(i)),
              tensors);
  } else if (value.isList()) {
    size_t i = 0;
    for (const c10::IValue &element : value.toListRef())
      collect(element, below(path, std::to_string(i++)), tensors);
  } else if (value.isGenericDict()) {
    for (const auto &entry : value.toGenericDict())
      collect(entry.value(),
              below(path, entry.key().isString() ? pathKey(entry.key().toStringRef())
                          : entry.key().isInt()  ? std::to_string(entry.key().toInt())
                                                 : "?"),
              tensors);
  }
}

} // namespace

bool ArgumentCut::any() const {
  return dim || llvm::any_of(parts, [](const PartDim &part) { return part.dim.has_value(); });
}

const PartDim *ArgumentCut::partOf(llvm::StringRef path) const {
  const PartDim *best = nullptr;
  for (const PartDim &part : parts)
    if (path == part.path || startsWith(path, part.path + "."))
      if (!best || part.path.size() > best->path.size())
        best = &part;
  return best;
}

std::optional<int64_t> ArgumentCut::at(llvm::StringRef path) const {
  const PartDim *part = partOf(path);
  return part ? part->dim : dim;
}

void ArgumentCut::set(const std::string &path, std::optional<int64_t> partDim) {
  auto place = llvm::find_if(parts, [&](const PartDim &part) { return part.path >= path; });
  if (place != parts.end() && place->path == path)
    place->dim = partDim;
  else
    parts.insert(place, {path, partDim});
}

llvm::Error expectParts(const InputSpec &input, const c10::IValue &value) {
  if (input.parts.empty())
    return llvm::Error::success();
  std::vector<std::string> paths;
  for (const auto &[path, tensor] : tensorsByPath(value))
    paths.push_back(path);
  for (const PartDim &part : input.parts)
    if (llvm::none_of(paths, [&](const std::string &path) {
          return path == part.path || startsWith(path, part.path + ".");
        }))
      return makeError(ExitCode::Usage,
                       fmt::format("--batch-dim: expected a part of {} ({}), got {}.{}", input.name,
                                   llvm::join(paths, ", "), input.name, part.path),
                       didYouMean(part.path, paths));
  return llvm::Error::success();
}

ArgumentCut cutOf(const InputSpec &input) { return {input.batchDim, input.parts}; }

void setCut(InputSpec &input, const ArgumentCut &cut) {
  input.batchDim = cut.dim;
  input.parts = cut.parts;
}

std::vector<std::pair<std::string, at::Tensor>> tensorsByPath(const c10::IValue &value) {
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  collect(value, "", tensors);
  return tensors;
}

void forEachTensor(const c10::IValue &value, const ArgumentCut &cut,
                   llvm::function_ref<void(const at::Tensor &, std::optional<int64_t>)> visit) {
  if (cut.parts.empty())
    return forEachTensor(value, [&](const at::Tensor &tensor) { visit(tensor, cut.dim); });
  for (const auto &[path, tensor] : tensorsByPath(value))
    visit(tensor, cut.at(path));
}

c10::IValue
mapTensors(const c10::IValue &value, const ArgumentCut &cut,
           llvm::function_ref<at::Tensor(const at::Tensor &, std::optional<int64_t>)> map) {
  if (cut.parts.empty())
    return mapTensors(value, [&](const at::Tensor &tensor) { return map(tensor, cut.dim); });
  const std::vector<std::pair<std::string, at::Tensor>> tensors = tensorsByPath(value);
  size_t next = 0; // both walks have the same order
  return mapTensors(
      value, [&](const at::Tensor &tensor) { return map(tensor, cut.at(tensors[next++].first)); });
}

} // namespace pipec
