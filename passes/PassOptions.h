// Factories and option readers for passes: what stands in the `make` field of a registry row.
#pragma once

#include "passes/Pass.h"

#include <optional>
#include <type_traits>

namespace pipec {

/// Reads the options of one pass instance. Each option is asked for once; `finish` refuses what
/// nobody asked for.
///   OptionReader read(options);
///   size_t stages = read.count("stages", 2);
///   std::string split = read.choice("split", {"auto", "at"}, "auto");
///   if (llvm::Error error = read.finish()) return error;
class OptionReader {
public:
  /// `options` must live as long as the reader.
  explicit OptionReader(const PassOptions &options) : options_(options) {}

  /// Absent: `fallback`. Anything but a number of 0 or more: the error of finish().
  size_t count(llvm::StringRef name, size_t fallback);
  /// Absent: `fallback`. None of `choices`: the error of finish().
  std::string choice(llvm::StringRef name, std::initializer_list<llvm::StringRef> choices,
                     llvm::StringRef fallback);
  /// "a:b:c" as its parts; absent: none.
  std::vector<std::string> list(llvm::StringRef name);

  /// Errors: Usage naming the option (unknown, not a number, not one of its choices); the first
  /// found. The pass manager adds the name of the pass.
  llvm::Error finish();

private:
  std::optional<std::string> maybe(llvm::StringRef name);
  void complain(std::string message);

  const PassOptions &options_;
  std::vector<std::string> known_;
  std::string complaint_;
};

/// Errors: Usage when `options` is not empty.
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
