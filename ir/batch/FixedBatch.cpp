#include "ir/batch/FixedBatch.h"

#include "ir/batch/CutCandidates.h"
#include "ir/batch/MicroBatch.h"
#include "ir/plan/PlanNames.h"
#include "ir/support/Words.h"
#include "ir/values/MapTensors.h"
#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <ATen/core/Tensor.h>

#include <algorithm>

namespace pipec {

namespace {

constexpr int64_t kMostSamples = 1024; // a batch of more would be slow to try, and is rare
constexpr size_t kMostBatches = 8;
constexpr int64_t kMostFewSamples = 8; // a smaller batch may be too small
constexpr int64_t kMostDims = 64;
constexpr int64_t kMostParts = 256; // of the batch, for one trial

bool isDigit(char letter) { return letter >= '0' && letter <= '9'; }

/// The whole numbers of the first line, in order, each once, also those of "2x128", LibTorch's form
/// of matrix shapes. Parts of names or of decimal numbers do not count.
std::vector<int64_t> numbersIn(llvm::StringRef text) {
  std::vector<int64_t> numbers;
  text = text.split('\n').first;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = begin;
    while (end < text.size() &&
           (isDigit(text[end]) || std::isalpha(text[end]) || text[end] == '_' || text[end] == '.'))
      ++end;
    llvm::StringRef word = text.slice(begin, end).rtrim('.');
    begin = std::max(end, begin + 1);
    if (word.find_first_not_of("0123456789x") != llvm::StringRef::npos)
      continue;
    while (!word.empty()) {
      auto [part, rest] = word.split('x');
      word = rest;
      int64_t number = 0;
      if (!part.getAsInteger(10, number) && number <= kMostSamples &&
          !llvm::is_contained(numbers, number))
        numbers.push_back(number);
    }
  }
  return numbers;
}

/// Every sample of the batch is in one of the calls, so that a sample that the model refuses
/// because of its values is not left out.
bool runsWith(int64_t samples, int64_t batch, const Signature &signature,
              llvm::ArrayRef<c10::IValue> inputs, ModelRunner run) {
  bool all = true;
  for (int64_t begin = 0; all && begin < batch; begin += samples)
    all = doesRun(run, [&] {
      Values part;
      for (size_t i = 0; i < inputs.size(); ++i) {
        const ArgumentCut cut = cutOf(signature.inputs[i]);
        auto narrow = [&](const at::Tensor &tensor, std::optional<int64_t> dim) {
          return dim && tensor.defined()
                     ? tensor.narrow(*dim, std::min(begin, batch - samples), samples)
                     : tensor;
        };
        part.push_back(samples > batch ? resizeBatch(inputs[i], cut, samples)
                                       : mapTensors(inputs[i], cut, narrow));
      }
      return part;
    });
  return all;
}

/// Inputs that are cut along `dim`.
std::vector<std::string> cutAlong(const Signature &signature, int64_t dim) {
  std::vector<std::string> names;
  for (const InputSpec &input : signature.inputs) {
    if (input.batchDim == dim)
      names.push_back(input.name);
    for (const PartDim &part : input.parts)
      if (part.dim == dim)
        names.push_back(input.name + "." + part.path);
  }
  return names;
}

/// Both sizes, if the model runs as soon as a dimension that is not the batch has the batch's size
/// instead of `samples`. Empty: no such dimension. `given`: the user's batch, of which `batch` is a
/// part.
std::string contradiction(int64_t samples, int64_t batch, int64_t given, const Signature &signature,
                          llvm::ArrayRef<c10::IValue> inputs, ModelRunner run) {
  constexpr size_t kMostPlaces = 8;
  int64_t first = 0; // dimension of the batch
  while (first < kMostDims && cutAlong(signature, first).empty())
    ++first;
  const std::string cut = fmt::format("{}", fmt::join(cutAlong(signature, first), " and "));
  size_t places = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const InputSpec &input = signature.inputs[i];
    if (!inputs[i].isTensor() || !inputs[i].toTensor().defined())
      continue;
    for (int64_t dim = 0; dim < inputs[i].toTensor().dim(); ++dim) {
      if (inputs[i].toTensor().size(dim) != samples || input.batchDim == dim ||
          places++ == kMostPlaces)
        continue;
      const bool agrees = runsWithSize(inputs, i, dim, batch, run);
      if (agrees && dim == first && !isCut(input))
        return fmt::format("{} {} {}, {} has {}", cut, cut.find(' ') == cut.npos ? "has" : "have",
                           counted(static_cast<size_t>(given), "sample"), input.name, samples);
      if (agrees)
        return fmt::format("dimension {} of {} has size {}, dimension {} of {} has size {}, and "
                           "the model runs only if they agree",
                           first, cut, given, dim, input.name, samples);
    }
  }
  return "";
}

/// Whether a few samples more are enough, as for a batch norm, which needs more than one value per
/// channel. `takes`: whether the model runs with so many samples; it does not with `batch`.
bool isTooSmall(int64_t batch, llvm::function_ref<bool(int64_t)> takes) {
  return batch >= 1 && batch < kMostFewSamples && takes(batch + 1) && takes(batch + 2) &&
         !takes(batch - 1);
}

llvm::Error tooFewSamples(const ErrorText &text, int64_t batch) {
  const std::string least = counted(static_cast<size_t>(batch + 1), "sample");
  return makeError(
      text.code, fmt::format("expected at least {}, got {}: {}", least, batch, text.message),
      fmt::format("choose the batch and --microbatches so that each micro-batch has at least {}",
                  least));
}

} // namespace

/// Dimensions of the batch's size beside the one that is cut, as in "dimension 1 of adj", and the
/// names of their inputs.
static std::pair<std::vector<std::string>, std::vector<std::string>>
squaresIn(const Signature &signature) {
  std::vector<std::string> places, names;
  for (const InputSpec &input : signature.inputs)
    for (size_t d = 0; input.batchDim && input.tensor.known && d < input.tensor.shape.size(); ++d) {
      const Dim &dim = input.tensor.shape[d];
      if (static_cast<int64_t>(d) == *input.batchDim || dim.dynamic || dim.perBatch != 0 ||
          dim.constant != signature.batchSize || signature.batchSize < 2)
        continue;
      places.push_back(fmt::format("dimension {} of {}", d, input.name));
      if (!llvm::is_contained(names, input.name))
        names.push_back(input.name);
    }
  return {places, names};
}

std::string whatFixesBatch(const Signature &signature, llvm::ArrayRef<c10::IValue> inputs) {
  std::vector<std::string> names;
  for (size_t i = 0; i < inputs.size() && signature.batchSize > 1; ++i) {
    bool hasSize = false;
    forEachTensor(inputs[i], [&](const at::Tensor &tensor) {
      hasSize =
          hasSize || (tensor.defined() && llvm::is_contained(tensor.sizes(), signature.batchSize));
    });
    if (hasSize && !isCut(signature.inputs[i]))
      names.push_back(signature.inputs[i].name);
  }
  const std::vector<std::string> squares = squaresIn(signature).first;
  const std::string constants =
      squares.empty() ? "the model's constants"
                      : fmt::format("{}, which no cut makes smaller, or the model's constants",
                                    fmt::join(squares, " and "));
  return names.empty() ? constants
                       : fmt::format("{}, or the size of {}, which every micro-batch gets whole,",
                                     constants, fmt::join(names, " and "));
}

bool runsWithSize(llvm::ArrayRef<c10::IValue> inputs, size_t index, int64_t dim, int64_t size,
                  ModelRunner run) {
  return doesRun(run, [&] {
    Values resized = inputs.vec();
    resized[index] = resizeBatch(resized[index], dim, size);
    return resized;
  });
}

std::string howToFreeBatch() {
  return "for other sizes, take sizes from the input (x.size(0) or -1) instead of constants; a "
         "trace "
         "makes constants of int(x.size(0)), len(x) and Python numbers";
}

std::string howToFreeBatch(const Signature &signature) {
  const std::vector<std::string> names = squaresIn(signature).second;
  return (names.empty() ? ""
                        : fmt::format("a cut is along one dimension, so compute {} in the model if "
                                      "both of its sizes follow the batch; ",
                                      fmt::join(names, " and "))) +
         howToFreeBatch();
}

llvm::Error explainFixedBatch(llvm::Error error, Signature signature,
                              llvm::ArrayRef<c10::IValue> inputs,
                              const std::vector<bool> &batchDimGiven, ModelRunner run,
                              llvm::ArrayRef<c10::IValue> whole) {
  if (!error)
    return llvm::Error::success();
  ErrorText text = describe(std::move(error));
  auto unchanged = [&] { return makeError(text.code, text.message, text.help); };
  if (text.code != ExitCode::Usage)
    return unchanged();
  llvm::Expected<std::vector<CutCandidate>> ways = cutCandidates(signature, inputs, batchDimGiven);
  if (!ways || ways->empty()) { // the model's own error is the one to report
    llvm::consumeError(ways.takeError());
    return unchanged();
  }
  const int64_t batch = ways->front().batch;
  setCut(signature, ways->front().dims);
  const int64_t given = whole.empty() ? batch : batchSizeOr(batch, signature, whole);
  auto takes = [&](int64_t samples) {
    return samples >= 1 && runsWith(samples, batch, signature, inputs, run);
  };
  if (isTooSmall(batch, takes))
    return tooFewSamples(text, batch);
  size_t trials = 0;
  for (int64_t samples : numbersIn(text.message)) {
    if (batch < 1 || samples < 1 || samples == batch || batch / samples > kMostParts ||
        trials++ == kMostBatches)
      continue;
    if (!takes(samples))
      continue;
    const std::string sizes = contradiction(samples, batch, given, signature, inputs, run);
    if (!sizes.empty())
      return makeError(text.code, sizes + ": " + text.message,
                       "pass inputs whose sizes agree; if the batch is another dimension, name it "
                       "with --batch-dim");
    if (samples > 1 && takes(samples + 1)) // the number is another one, such as a layer's width
      continue;
    // Rows in groups, as of x.view(-1, 2, 8): the number of groups is free.
    if (samples > 1 && 2 * samples != batch && takes(2 * samples))
      return makeError(
          text.code,
          fmt::format("expected a multiple of {} (the model groups rows by {}), got {}: {}",
                      counted(static_cast<size_t>(samples), "sample"), samples, batch,
                      text.message),
          fmt::format("choose the batch and --microbatches so that each micro-batch has a multiple "
                      "of {}",
                      counted(static_cast<size_t>(samples), "sample")));
    return makeError(
        text.code,
        fmt::format("expected a batch of {} (the model's constants fix it), got {}: {}",
                    counted(static_cast<size_t>(samples), "sample"), batch, text.message),
        fmt::format("pass batches of {}; {}", samples, howToFreeBatch()));
  }
  return unchanged();
}

llvm::Error explainFewSamples(llvm::Error error, const Signature &signature,
                              llvm::ArrayRef<c10::IValue> inputs, ModelRunner run) {
  if (!error)
    return llvm::Error::success();
  const ErrorText text = describe(std::move(error));
  const int64_t batch = batchSizeOr(0, signature, inputs);
  auto takes = [&](int64_t samples) {
    return samples >= 1 && runsWith(samples, batch, signature, inputs, run);
  };
  if (text.code == ExitCode::Usage && isTooSmall(batch, takes) && !takes(batch))
    return tooFewSamples(text, batch);
  return makeError(text.code, text.message, text.help);
}

} // namespace pipec
