#include "ir/batch/discovery/TriedSuggestion.h"

#include "ir/batch/SuggestedDims.h"
#include "ir/values/ArgumentText.h"
#include "llvm/ADT/STLExtras.h"

namespace pipec {

/// A later dimension of a model that runs at one size. A result with that many rows may have a row
/// per sample, but the model fixes the number, so the dimension is only suggested.
static std::string laterSuggestion(const Signature &signature, const SuggestionSearch &search,
                                   TryWay tryWay) {
  if (!search.best || search.best->fit != CutFit::OneSize)
    return "";
  for (const CutCandidate &one :
       laterDimensions(search.untried, search.inputs, search.given, /*ofFeatures=*/true)) {
    if (llvm::is_contained(search.tried, one.dims))
      continue;
    llvm::Expected<std::optional<CutWay>> tried = tryWay(one);
    if (!tried) { // advice does not replace what is known
      llvm::consumeError(tried.takeError());
      return "";
    }
    const std::optional<CutWay> &way = *tried;
    if (!way || way->fit != CutFit::Equal || !isBetterSecond(*way, nullptr))
      continue;
    NamedDims dims;
    for (size_t i = 0; i < one.dims.size(); ++i)
      if (one.dims[i].dim)
        dims.emplace_back(i, *one.dims[i].dim);
    return dimsText(signature, dims);
  }
  return "";
}

std::string triedSuggestion(const Signature &signature, const SuggestionSearch &search,
                            TryWay tryWay) {
  constexpr size_t kMost = 4;
  const NamedDims dims = suggestedDims(signature, search.inputs);
  if (dims.empty())
    return laterSuggestion(signature, search, tryWay);
  std::vector<CutCandidate> ways = cutsAlong(dims, search.untried, search.inputs, search.given);
  llvm::erase_if(
      ways, [&](const CutCandidate &way) { return llvm::is_contained(search.tried, way.dims); });
  ways.resize(std::min(ways.size(), kMost));
  for (const CutCandidate &one : ways) {
    llvm::Expected<std::optional<CutWay>> tried = tryWay(one);
    if (!tried) { // advice does not replace what is known
      llvm::consumeError(tried.takeError());
      return "";
    }
    if (const std::optional<CutWay> &way = *tried;
        way && way->fit <= CutFit::Unequal && (!search.best || way->fit < search.best->fit))
      return dimsText(signature, dims);
  }
  return "";
}

llvm::Error withSuggestion(llvm::Error error, const std::string &dims) {
  ErrorText text = describe(std::move(error));
  return makeError(text.code, text.message,
                   (text.help.empty() || text.help == kRefusedByModel ? "" : text.help + "; ") +
                       "if the batch is not dimension 0 of every input, pass --batch-dim " + dims);
}

} // namespace pipec
