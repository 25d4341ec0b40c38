#include "ir/TypeAnswers.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

namespace pipec {

namespace {

/// Beyond that nobody's model goes, and a damaged text must not fill the memory.
constexpr size_t kMostQuestions = size_t(1) << 24;

bool parseRanges(llvm::StringRef text, std::vector<size_t> &numbers) {
  llvm::SmallVector<llvm::StringRef, 8> parts;
  text.split(parts, ',');
  for (llvm::StringRef part : parts) {
    auto [first, last] = part.split('-');
    size_t from = 0, to = 0;
    if (first.getAsInteger(10, from))
      return false;
    to = from;
    if (part.contains('-') && (last.getAsInteger(10, to) || to <= from))
      return false;
    if (to >= kMostQuestions || (!numbers.empty() && from <= numbers.back()))
      return false;
    for (size_t number = from; number <= to; ++number)
      numbers.push_back(number);
  }
  return true;
}

} // namespace

std::vector<std::string> printForms(const FormAnswers &answers) {
  std::vector<std::string> texts;
  for (auto [run, numbers] : answers) { // noted as they were asked
    llvm::sort(numbers);
    numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
    std::string text = std::to_string(run) + ":";
    for (size_t i = 0; i < numbers.size();) {
      size_t last = i;
      while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1)
        ++last;
      text += (i ? "," : "") + std::to_string(numbers[i]);
      if (last > i)
        text += "-" + std::to_string(numbers[last]);
      i = last + 1;
    }
    texts.push_back(std::move(text));
  }
  return texts;
}

llvm::Expected<FormAnswers> parseForms(const std::vector<std::string> &texts) {
  FormAnswers answers;
  for (llvm::StringRef text : texts) {
    auto [first, ranges] = text.split(':');
    size_t run = 0;
    if (first.getAsInteger(10, run) || answers.count(run) || !parseRanges(ranges, answers[run]))
      return failf(ExitCode::BadArtifact,
                   "normalisation: forms \"{}\": expected RUN:NUMBERS as 3:0-15,17", text.str());
  }
  return answers;
}

} // namespace pipec
