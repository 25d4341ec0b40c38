#include "ir/batch/SizeLinks.h"

#include "ir/values/MapTensors.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

#include <ATen/core/Tensor.h>

#include <optional>

namespace pipec {

namespace {

/// A dimension whose size differs, with its size in every example.
struct VaryingDim {
  std::string where; // "dimension 2 of past"
  std::vector<int64_t> sizes;
};

std::vector<std::vector<int64_t>> shapesOf(const c10::IValue &value) {
  std::vector<std::vector<int64_t>> shapes;
  forEachTensor(value, [&](const at::Tensor &tensor) {
    shapes.push_back(tensor.defined() ? tensor.sizes().vec() : std::vector<int64_t>());
  });
  return shapes;
}

/// Tensors of one argument usually vary alike; each kind of variation counts once.
void collect(const InputSpec &input, llvm::ArrayRef<std::vector<std::vector<int64_t>>> shapes,
             std::vector<VaryingDim> &found) {
  for (size_t t = 0; t < shapes.front().size(); ++t)
    for (size_t d = 0; d < shapes.front()[t].size(); ++d) {
      if (static_cast<int64_t>(d) == input.batchDim)
        continue;
      VaryingDim varying{fmt::format("dimension {} of {}", d, input.name), {}};
      for (const auto &example : shapes)
        if (t < example.size() && d < example[t].size())
          varying.sizes.push_back(example[t][d]);
      const bool known = varying.sizes.size() == shapes.size();
      if (!known || llvm::is_splat(varying.sizes))
        continue;
      if (llvm::none_of(found, [&](const VaryingDim &one) {
            return one.where == varying.where && one.sizes == varying.sizes;
          }))
        found.push_back(std::move(varying));
    }
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
  std::vector<VaryingDim> varying;
  for (size_t i = 0; i < signature.inputs.size(); ++i) {
    std::vector<std::vector<std::vector<int64_t>>> shapes;
    for (const Values &example : examples)
      shapes.push_back(shapesOf(example[i]));
    collect(signature.inputs[i], shapes, varying);
  }
  // The smallest sizes get the letter, so that the others are this much more.
  llvm::stable_sort(varying, [](const VaryingDim &a, const VaryingDim &b) {
    return a.sizes.front() < b.sizes.front();
  });
  std::vector<std::string> parts;
  char letter = 't';
  while (!varying.empty()) {
    const std::vector<int64_t> base = varying.front().sizes;
    std::vector<std::pair<std::string, std::vector<std::string>>> links; // "t + 1", dimensions
    llvm::erase_if(varying, [&](const VaryingDim &one) {
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

} // namespace pipec
