#include "ir/batch/FixedBatch.h"

#include "ir/TorchError.h"
#include "ir/batch/CutCandidates.h"
#include "ir/batch/MicroBatch.h"
#include "ir/support/Words.h"
#include "ir/values/MapTensors.h"
#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <ATen/core/Tensor.h>

#include <algorithm>

namespace pipec {

namespace {

constexpr int64_t kMostSamples = 1024; // a batch of more would be slow to try, and is rare
constexpr size_t kMostBatches = 8;
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

bool runs(std::vector<c10::IValue> inputs, ModelRunner run) {
  llvm::Error error = run({std::move(inputs)}).takeError();
  const bool does = !error; // a refusal is one of the two answers
  llvm::consumeError(std::move(error));
  return does;
}

/// Every sample of the batch is in one of the calls, so that a sample that the model refuses
/// because of its values is not left out.
bool runsWith(int64_t samples, int64_t batch, const Signature &signature,
              llvm::ArrayRef<c10::IValue> inputs, ModelRunner run) {
  bool all = true;
  for (int64_t begin = 0; all && begin < batch; begin += samples) {
    std::vector<c10::IValue> part;
    llvm::Error error = guardTorchVoid(ExitCode::Other, "resizing", [&] {
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
      part = ownCopies(part);
    });
    all = !error && runs(std::move(part), run); // what cannot be resized does not run
    llvm::consumeError(std::move(error));
  }
  return all;
}

} // namespace

std::string howToFreeBatch() {
  return "for other sizes, take sizes from the input (x.size(0) or -1) instead of constants; a "
         "trace "
         "makes constants of int(x.size(0)), len(x) and Python numbers";
}

llvm::Error explainFixedBatch(llvm::Error error, Signature signature,
                              llvm::ArrayRef<c10::IValue> inputs,
                              const std::vector<bool> &batchDimGiven, ModelRunner run) {
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
  size_t trials = 0;
  for (int64_t samples : numbersIn(text.message)) {
    if (batch < 1 || samples < 1 || samples == batch || batch / samples > kMostParts ||
        trials++ == kMostBatches)
      continue;
    if (runsWith(samples, batch, signature, inputs, run))
      return makeError(
          text.code,
          fmt::format("expected a batch of {} (the model's constants fix it), got {}: {}",
                      counted(static_cast<size_t>(samples), "sample"), batch, text.message),
          fmt::format("pass batches of {}; {}", samples, howToFreeBatch()));
  }
  return unchanged();
}

} // namespace pipec
