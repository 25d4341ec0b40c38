// Values of options: numbers, sizes and times with our own messages, and choices by name.
#pragma once

#include "compiler/planner/RecomputeWish.h"
#include "ir/support/Error.h"
#include "ir/support/Try.h"
#include "llvm/Support/CommandLine.h"

#include <string>

namespace pipec {

/// Values of options whose texts are checked with our own messages. Each converts to its number.
///   IntegerOption stages("stages", cl::value_desc("N"), cl::desc("number of stages"));  ...
///   int64_t n = stages;
template <typename Number, int Kind> struct OptionNumber {
  Number value = 0;
  OptionNumber(Number number = 0) : value(number) {}
  operator Number() const { return value; }
};
using IntegerValue = OptionNumber<int64_t, 0>;
using SizeValue = OptionNumber<int64_t, 1>;     // bytes
using DurationValue = OptionNumber<int64_t, 2>; // nanoseconds
using NumberValue = OptionNumber<double, 3>;
using IntegerOption = llvm::cl::opt<IntegerValue>;
using SizeOption = llvm::cl::opt<SizeValue>;
using DurationOption = llvm::cl::opt<DurationValue>;
using NumberOption = llvm::cl::opt<NumberValue>;
using StringOption = llvm::cl::opt<std::string>;
using StringListOption = llvm::cl::list<std::string>;
using FlagOption = llvm::cl::opt<bool>;

/// The index in `names` of the value of an option that chooses by name. Errors: Usage listing the
/// names.
llvm::Expected<size_t> chooseByName(llvm::StringRef option, llvm::StringRef value,
                                    llvm::ArrayRef<llvm::StringRef> names);

/// The same for a type: the value beside the name.
template <typename Value>
llvm::Expected<Value>
chooseByName(llvm::StringRef option, llvm::StringRef value,
             std::initializer_list<std::pair<llvm::StringRef, Value>> choices) {
  std::vector<llvm::StringRef> names;
  for (const auto &choice : choices)
    names.push_back(choice.first);
  size_t index = TRY(chooseByName(option, value, names));
  return choices.begin()[index].second;
}

/// The value of --recompute: a choice, or stages. Errors: Usage.
llvm::Expected<RecomputeWish> recomputeFromText(llvm::StringRef text);

/// Reads one value; true: it is wrong, and the message is kept for takeValueError().
bool parseOptionValue(llvm::StringRef name, llvm::StringRef text, IntegerValue &value);
bool parseOptionValue(llvm::StringRef name, llvm::StringRef text, SizeValue &value);
bool parseOptionValue(llvm::StringRef name, llvm::StringRef text, DurationValue &value);
bool parseOptionValue(llvm::StringRef name, llvm::StringRef text, NumberValue &value);

/// The first message of parseOptionValue since the last call; empty: every value was good.
std::string takeValueError();

} // namespace pipec

namespace llvm::cl {

template <typename Number, int Kind>
class parser<pipec::OptionNumber<Number, Kind>>
    : public basic_parser<pipec::OptionNumber<Number, Kind>> {
public:
  using Value = pipec::OptionNumber<Number, Kind>;
  parser(Option &option) : basic_parser<Value>(option) {}
  bool parse(Option &, StringRef name, StringRef text, Value &value) {
    return pipec::parseOptionValue(name, text, value);
  }
  void printOptionDiff(const Option &option, const Value &, const OptionValue<Value> &,
                       size_t width) const {
    this->printOptionNoValue(option, width);
  }
};

} // namespace llvm::cl
