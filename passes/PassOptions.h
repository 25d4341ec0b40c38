// Factories and option readers for passes: the values of the `make` field of a registry row.
#pragma once

#include "passes/Pass.h"

#include <optional>
#include <type_traits>

namespace pipec {

/// Reads the options of one pass instance. Each option is read once; `finish` refuses options that
/// no call read.
///   OptionReader read(options);
///   size_t stages = read.count("stages", 2);
///   bool slow = read.choice("speed", {{"quick", false}, {"slow", true}}, false);
///   if (llvm::Error error = read.finish()) return error;
class OptionReader {
public:
  /// `options` must live as long as the reader.
  explicit OptionReader(const PassOptions &options) : options_(options) {}

  /// Absent: `fallback`. A value other than a number >= 0 is an error of finish().
  size_t count(llvm::StringRef name, size_t fallback);
  /// The value beside the word that is given. Absent: `fallback`. None of these words: the error
  /// of finish().
  template <typename Value>
  Value choice(llvm::StringRef name,
               std::initializer_list<std::pair<llvm::StringRef, Value>> choices, Value fallback) {
    std::vector<llvm::StringRef> words;
    for (const auto &choice : choices)
      words.push_back(choice.first);
    const std::optional<size_t> index = indexOfWord(name, words);
    return index ? choices.begin()[*index].second : fallback;
  }
  /// "a:b:c" as its parts; absent: none.
  std::vector<std::string> list(llvm::StringRef name);

  /// Errors: Usage naming the first bad option (unknown, not a number, not one of its choices). The
  /// pass manager adds the name of the pass.
  llvm::Error finish();

private:
  std::optional<size_t> indexOfWord(llvm::StringRef name, llvm::ArrayRef<llvm::StringRef> words);
  std::optional<std::string> maybe(llvm::StringRef name);
  void complain(std::string message);

  const PassOptions &options_;
  std::vector<std::string> known_;
  std::string complaint_;
};

/// Errors: Usage if `options` is not empty.
llvm::Error refuseOptions(const PassOptions &options);

/// `make` for a pass without options: withoutOptions<InlineCalls>().
template <typename Pass> PassInfo::Factory withoutOptions() {
  using Base = std::conditional_t<
      std::is_base_of_v<ModelPass, Pass>, ModelPass,
      std::conditional_t<std::is_base_of_v<StagedPass, Pass>, StagedPass, SplitPass>>;
  return [](const PassOptions &options) -> llvm::Expected<std::unique_ptr<Base>> {
    if (llvm::Error error = refuseOptions(options))
      return error;
    return std::make_unique<Pass>();
  };
}

} // namespace pipec
