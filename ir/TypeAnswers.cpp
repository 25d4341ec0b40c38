#include "ir/TypeAnswers.h"

#include "ir/support/Error.h"
#include "llvm/ADT/StringRef.h"

#include <fmt/format.h>

namespace pipec {

namespace {

constexpr llvm::StringLiteral kCopy = ", copy ", kRound = ", from round ";

bool takeNumber(llvm::StringRef text, size_t &number) {
  return !text.getAsInteger(10, number) && text == std::to_string(number);
}

/// The module's name, which may have any characters, is in the middle of the text, so both ends are
/// read first.
bool parseDecision(llvm::StringRef text, TypeDecisions &decisions) {
  auto [rest, round] = text.rsplit(kRound);
  auto [name, verdict] = rest.rsplit(": ");
  auto [property, answer] = verdict.split(" = ");
  auto [of, copy] = name.rsplit(kCopy);
  TypeQuestion question{of.str(), 0, property.str()};
  size_t from = 0, number = 1;
  if (of.empty() || property.empty() || answer.empty() || !takeNumber(round, from))
    return false;
  if (!copy.empty() && (!takeNumber(copy, number) || number < 2))
    return false;
  question.copy = number - 1;
  return decisions[question].try_emplace(from, answer.str()).second;
}

} // namespace

std::vector<std::string> printDecisions(const TypeDecisions &decisions) {
  std::vector<std::string> texts;
  for (const auto &[question, answers] : decisions)
    for (const auto &[round, answer] : answers)
      texts.push_back(question.of +
                      (question.copy ? kCopy.str() + std::to_string(question.copy + 1) : "") +
                      fmt::format(": {} = {}{}{}", question.property, answer, kRound.str(), round));
  return texts;
}

llvm::Expected<TypeDecisions> parseDecisions(const std::vector<std::string> &texts) {
  TypeDecisions decisions;
  for (const std::string &text : texts)
    if (!parseDecision(text, decisions))
      return failf(ExitCode::BadArtifact,
                   "normalisation: forms \"{}\": expected OPERATOR: PROPERTY = ANSWER, from round "
                   "NUMBER, each once",
                   text);
  return decisions;
}

const std::string *TypeAnswers::find(const TypeQuestion &question) const {
  for (size_t copy : {question.copy, size_t(0)}) {
    auto found = decisions.find({question.of, copy, question.property});
    if (found == decisions.end())
      continue;
    auto next = found->second.upper_bound(round);
    if (next != found->second.begin())
      return &std::prev(next)->second;
  }
  return nullptr;
}

void TypeAnswers::note(const TypeQuestion &question, const std::string &answer) {
  if (const std::string *known = find(question); !known || *known != answer)
    decisions[question][round] = answer;
}

} // namespace pipec
