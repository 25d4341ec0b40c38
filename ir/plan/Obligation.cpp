#include "ir/plan/Obligation.h"

#include "ir/support/Error.h"
#include "ir/support/Runs.h"
#include "llvm/ADT/StringExtras.h"

namespace pipec {

namespace {

std::vector<std::string> wordsOf(llvm::StringRef text) {
  llvm::SmallVector<llvm::StringRef> parts;
  text.split(parts, ' ');
  std::vector<std::string> words;
  for (llvm::StringRef part : parts)
    words.push_back(part.str());
  return words;
}

} // namespace

Obligation Obligation::reorder(llvm::ArrayRef<size_t> order) {
  return {Kind::Reorder, llvm::join(runsOf(order), " "), "", "", 0, 0};
}

std::optional<std::vector<size_t>> orderOf(llvm::ArrayRef<Obligation> obligations) {
  for (const Obligation &obligation : obligations)
    if (obligation.kind == Obligation::Kind::Reorder)
      return numbersOfRuns(wordsOf(obligation.of));
  return std::nullopt;
}

std::string toString(const Obligation &obligation) {
  if (obligation.kind == Obligation::Kind::Reorder)
    return "reorder operators " + obligation.of;
  if (obligation.kind == Obligation::Kind::Recompute)
    return fmt::format("recompute {} {} times in stage {}", obligation.of, obligation.times,
                       obligation.stage);
  return fmt::format("fact {} has {} {}", obligation.of, obligation.property, obligation.value);
}

namespace {

bool parseRecompute(llvm::StringRef rest, Obligation &obligation) {
  auto [of, count] = rest.split(' ');
  auto [times, stage] = count.split(" times in stage ");
  obligation.kind = Obligation::Kind::Recompute;
  obligation.of = of.str();
  return !of.empty() && !times.getAsInteger(10, obligation.times) && obligation.times > 0 &&
         !stage.getAsInteger(10, obligation.stage);
}

/// Every operator once, and not where it was.
bool parseReorder(llvm::StringRef rest, Obligation &obligation) {
  obligation.kind = Obligation::Kind::Reorder;
  obligation.of = rest.str();
  const std::optional<std::vector<size_t>> order = numbersOfRuns(wordsOf(rest));
  return order && isPermutation(*order) && movedIn(*order) > 0;
}

bool parseFact(llvm::StringRef rest, Obligation &obligation) {
  auto [of, said] = rest.rsplit(" has ");
  auto [property, value] = said.split(' ');
  obligation.kind = Obligation::Kind::Fact;
  obligation.of = of.str();
  obligation.property = property.str();
  obligation.value = value.str();
  int64_t rank = 0;
  bool known = property == "dtype" || (property == "rank" && !value.getAsInteger(10, rank)) ||
               (property == "value" && value == "None");
  return !of.empty() && known && !value.empty() && !value.contains(' ');
}

} // namespace

llvm::Expected<Obligation> parseObligation(llvm::StringRef text) {
  Obligation obligation;
  llvm::StringRef rest = text;
  bool ok = rest.consume_front("recompute ") ? parseRecompute(rest, obligation)
            : rest.consume_front("reorder operators ")
                ? parseReorder(rest, obligation)
                : rest.consume_front("fact ") && parseFact(rest, obligation);
  // Only the canonical form is accepted: one text for one value.
  if (ok && toString(obligation) == text)
    return obligation;
  return failf(ExitCode::BadArtifact,
               "obligation \"{}\": expected a form like \"recompute aten::size 1 times in stage "
               "2\", \"reorder operators 1 0\" or \"fact input x has rank 2\"",
               text.str());
}

} // namespace pipec
