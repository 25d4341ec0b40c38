#include "ir/batch/discovery/SizeLinks.h"

#include "ir/batch/ArgumentCut.h"
#include "ir/values/MapTensors.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

#include <ATen/core/Tensor.h>

#include <map>
#include <optional>

namespace pipec {

namespace {

/// A dimension whose size differs, with its size in every example.
struct VaryingDim {
  std::string path; // below the argument; empty: of all tensors that have this dimension
  size_t dim;
  std::vector<int64_t> sizes;
};

/// Those of one argument beside the batch, tensor by tensor.
std::vector<VaryingDim> varyingDims(const InputSpec &input, size_t index,
                                    llvm::ArrayRef<Values> examples) {
  using Tensors = std::map<std::string, at::Tensor>;
  std::vector<Tensors> others;
  for (const Values &example : examples.drop_front()) {
    const auto tensors = tensorsByPath(example[index]);
    others.emplace_back(tensors.begin(), tensors.end());
  }
  const ArgumentCut cut = cutOf(input);
  std::vector<VaryingDim> found;
  for (const auto &[path, tensor] : tensorsByPath(examples.front()[index])) {
    const bool inAll = tensor.defined() && llvm::all_of(others, [&](const Tensors &tensors) {
                         const auto other = tensors.find(path);
                         return other != tensors.end() && other->second.defined() &&
                                other->second.dim() == tensor.dim();
                       });
    for (int64_t d = 0; inAll && d < tensor.dim(); ++d) {
      VaryingDim varying{path, static_cast<size_t>(d), {tensor.size(d)}};
      for (const Tensors &tensors : others)
        varying.sizes.push_back(tensors.at(path).size(d));
      if (cut.at(path) != d &&
          llvm::any_of(varying.sizes, [&](int64_t size) { return size != varying.sizes.front(); }))
        found.push_back(std::move(varying));
    }
  }
  return found;
}

/// A dimension that varies alike in all tensors of the argument that have it counts once.
std::vector<VaryingDim> joinedDims(std::vector<VaryingDim> dims, const c10::IValue &argument) {
  std::vector<VaryingDim> joined;
  for (VaryingDim &one : dims) {
    const auto isAlike = [&](const VaryingDim &other) {
      return other.dim == one.dim && other.sizes == one.sizes;
    };
    size_t having = 0;
    forEachTensor(argument, [&](const at::Tensor &tensor) {
      having += tensor.defined() && tensor.dim() > static_cast<int64_t>(one.dim);
    });
    if (static_cast<size_t>(llvm::count_if(dims, isAlike)) == having) {
      one.path.clear();
      if (llvm::any_of(joined, isAlike))
        continue;
    }
    joined.push_back(one);
  }
  return joined;
}

std::string nameOf(const InputSpec &input, const std::string &path) {
  return path.empty() ? input.name : input.name + "." + path;
}

/// "t", "t + 1", "2 t", for sizes against those of a letter.
std::optional<std::string> linkTo(const std::string &letter, llvm::ArrayRef<int64_t> base,
                                  llvm::ArrayRef<int64_t> sizes) {
  const int64_t more = sizes[0] - base[0];
  bool sum = true, product = base[0] > 0 && sizes[0] % base[0] == 0;
  const int64_t times = product ? sizes[0] / base[0] : 0;
  for (size_t i = 0; i < base.size(); ++i) {
    sum = sum && sizes[i] - base[i] == more;
    product = product && sizes[i] == times * base[i];
  }
  if (sum)
    return more == 0 ? letter
                     : fmt::format("{} {} {}", letter, more > 0 ? '+' : '-', std::abs(more));
  return product ? std::optional(fmt::format("{} {}", times, letter)) : std::nullopt;
}

} // namespace

std::string sizeLinks(const Signature &signature, llvm::ArrayRef<Values> examples) {
  struct Place {
    std::string where; // "dimension 2 of past"
    std::vector<int64_t> sizes;
  };
  std::vector<Place> varying;
  for (size_t i = 0; i < signature.inputs.size(); ++i) {
    const InputSpec &input = signature.inputs[i];
    for (VaryingDim &one : joinedDims(varyingDims(input, i, examples), examples.front()[i]))
      varying.push_back({fmt::format("dimension {} of {}", one.dim, nameOf(input, one.path)),
                         std::move(one.sizes)});
  }
  // The smallest sizes get the letter, so that the others are this much more.
  llvm::stable_sort(
      varying, [](const Place &a, const Place &b) { return a.sizes.front() < b.sizes.front(); });
  std::vector<std::string> parts;
  char letter = 't';
  while (!varying.empty()) {
    const std::vector<int64_t> base = varying.front().sizes;
    std::vector<std::pair<std::string, std::vector<std::string>>> links; // "t + 1", dimensions
    llvm::erase_if(varying, [&](const Place &one) {
      const std::optional<std::string> link = linkTo(std::string(1, letter), base, one.sizes);
      if (!link)
        return false;
      auto same = llvm::find_if(links, [&](const auto &entry) { return entry.first == *link; });
      if (same == links.end())
        same = links.insert(links.end(), {*link, {}});
      same->second.push_back(one.where);
      return true;
    });
    for (const auto &[link, dims] : links)
      parts.push_back(link + " = " + llvm::join(dims, ", "));
    letter = letter == 't' ? 'u' : letter == 'u' ? 'v' : 'w';
  }
  return llvm::join(parts, "; ");
}

std::vector<PartSizes> partSizes(const Signature &signature, llvm::ArrayRef<Values> runs) {
  std::vector<PartSizes> result;
  for (size_t i = 0; i < signature.inputs.size(); ++i) {
    const c10::IValue &argument = runs.front()[i];
    if (argument.isTensor())
      continue;
    std::vector<VaryingDim> dims = varyingDims(signature.inputs[i], i, runs);
    for (VaryingDim &one : dims)
      one.sizes.clear(); // whichever: they vary
    for (const VaryingDim &one : joinedDims(dims, argument)) {
      const std::string name = nameOf(signature.inputs[i], one.path);
      auto same = llvm::find_if(result, [&](const PartSizes &part) { return part.name == name; });
      if (same == result.end())
        same = result.insert(result.end(), {name, {}});
      same->dims.push_back(one.dim);
    }
  }
  return result;
}

} // namespace pipec
