// Options of passes: a struct with a field per option, and how each field is written as text.
//
//   struct UnrollLoopsOptions {
//     static constexpr llvm::StringLiteral kPass = "unroll-loops";
//     size_t growth = 20000;
//     static OptionFields<UnrollLoopsOptions> fields() {
//       return {countOption("growth=N", "how many nodes may be added",
//       &UnrollLoopsOptions::growth)};
//     }
//   };
#pragma once

#include "ir/support/Error.h"
#include "ir/support/Try.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace pipec {

/// The options of one pass instance as text, by name: {"stages": "4"} for cut-stages{stages=4}.
using OptionTexts = std::map<std::string, std::string>;

/// One option of a pass. Each has a default, which is not printed.
template <typename Options> struct OptionField {
  std::string form;                                  // "stages=N"
  std::string meaning;                               // "number of stages"
  std::function<std::string(const Options &)> print; // empty for the default
  std::function<llvm::Error(Options &, llvm::StringRef)> parse;

  std::string name() const { return llvm::StringRef(form).split('=').first.str(); }
};
template <typename Options> using OptionFields = std::vector<OptionField<Options>>;

/// "a:b:c" as its parts; empty: none.
std::vector<std::string> listOfOption(llvm::StringRef text);
llvm::Expected<size_t> countOfOption(llvm::StringRef name, llvm::StringRef text);
llvm::Error noChoice(llvm::StringRef name, llvm::ArrayRef<llvm::StringRef> choices,
                     llvm::StringRef text);

/// A number of 0 or more.
template <typename Options>
OptionField<Options> countOption(llvm::StringRef form, llvm::StringRef meaning,
                                 size_t Options::*field) {
  const std::string name = form.split('=').first.str();
  return {form.str(), meaning.str(),
          [field](const Options &options) {
            return options.*field == Options().*field ? "" : std::to_string(options.*field);
          },
          [field, name](Options &options, llvm::StringRef text) {
            return countOfOption(name, text).moveInto(options.*field);
          }};
}

/// Names, separated by colons.
template <typename Options>
OptionField<Options> listOption(llvm::StringRef form, llvm::StringRef meaning,
                                std::vector<std::string> Options::*field) {
  return {form.str(), meaning.str(),
          [field](const Options &options) { return llvm::join(options.*field, ":"); },
          [field](Options &options, llvm::StringRef text) {
            options.*field = listOfOption(text);
            return llvm::Error::success();
          }};
}

/// One of several words, each with its value.
template <typename Options, typename Value>
OptionField<Options> choiceOption(llvm::StringRef form, llvm::StringRef meaning,
                                  Value Options::*field,
                                  std::vector<std::pair<llvm::StringRef, Value>> choices) {
  const std::string name = form.split('=').first.str();
  return {form.str(), meaning.str(),
          [field, choices](const Options &options) -> std::string {
            if (options.*field == Options().*field)
              return "";
            for (const auto &[word, value] : choices)
              if (options.*field == value)
                return word.str();
            llvm_unreachable("each value has a word");
          },
          [field, choices, name](Options &options, llvm::StringRef text) -> llvm::Error {
            std::vector<llvm::StringRef> words;
            for (const auto &[word, value] : choices) {
              words.push_back(word);
              if (word == text) {
                options.*field = value;
                return llvm::Error::success();
              }
            }
            return noChoice(name, words, text);
          }};
}

/// The options of a step of a pipeline, whatever its pass.
class StepOptions {
public:
  virtual ~StepOptions() = default;
  /// "at=a:b,stages=2", in the order of the fields; empty if all have their defaults.
  virtual std::string text() const = 0;
};

template <typename Options> class TypedOptions : public StepOptions {
public:
  explicit TypedOptions(Options options) : value(std::move(options)) {}

  std::string text() const override {
    std::vector<std::string> parts;
    for (const OptionField<Options> &field : Options::fields())
      if (std::string printed = field.print(value); !printed.empty())
        parts.push_back(field.name() + "=" + printed);
    return llvm::join(parts, ",");
  }

  const Options value;
};

/// The options of a pass, in the registry.
struct OptionsOfPass {
  std::vector<std::pair<std::string, std::string>> meanings; // {"stages=N", "number of stages"}
  /// Errors: Usage for a value that a field cannot have. Names are checked by parseOptions.
  std::function<llvm::Expected<std::shared_ptr<const StepOptions>>(const OptionTexts &)> parse;

  /// Errors: Usage naming the first bad option. The caller adds the name of the pass.
  llvm::Expected<std::shared_ptr<const StepOptions>> parseOptions(const OptionTexts &texts) const;
};

/// For the registry row of a pass with these options.
template <typename Options> OptionsOfPass optionsOf() {
  OptionsOfPass result;
  for (const OptionField<Options> &field : Options::fields())
    result.meanings.emplace_back(field.form, field.meaning);
  result.parse =
      [](const OptionTexts &texts) -> llvm::Expected<std::shared_ptr<const StepOptions>> {
    Options options;
    for (const OptionField<Options> &field : Options::fields())
      if (const auto found = texts.find(field.name()); found != texts.end())
        TRY(field.parse(options, found->second));
    return std::make_shared<TypedOptions<Options>>(std::move(options));
  };
  return result;
}

} // namespace pipec
