// Factories and option readers for passes: what stands in the `make` field of a registry row.
#pragma once

#include "passes/Pass.h"

#include <optional>
#include <type_traits>

namespace pipec {

/// Reads the options of one pass instance. Each option is asked for once; `finish` refuses what
/// nobody asked for.
///   OptionReader read("cut-stages", options);
///   size_t stages = read.integer("stages", 2);
///   bool force = read.flag("force");
///   if (llvm::Error error = read.finish()) return error;
class OptionReader {
public:
  /// Both arguments must live as long as the reader.
  OptionReader(llvm::StringRef pass, const PassOptions &options) : pass_(pass), options_(options) {}

  /// Absent: `fallback`. Not a number: the error of finish().
  int64_t integer(llvm::StringRef name, int64_t fallback);
  std::string text(llvm::StringRef name, llvm::StringRef fallback = "");
  /// `force` alone or force=true is true; absent is `fallback`.
  bool flag(llvm::StringRef name, bool fallback = false);
  std::optional<std::string> maybe(llvm::StringRef name);

  /// Errors: Usage naming pass and option (unknown, not a number, not a truth value); the first
  /// found.
  llvm::Error finish();

private:
  void complain(std::string message);

  llvm::StringRef pass_;
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
