#include "compiler/PassDumps.h"

#include "ir/support/Try.h"
#include "ir/support/UnfinishedOutputs.h"
#include "ir/support/WriteFile.h"
#include "llvm/ADT/StringExtras.h"
#include "passes/Registry.h"

#include <filesystem>

namespace pipec {

namespace {

bool isDump(llvm::StringRef name) {
  if (!name.consume_back(".ir"))
    return false;
  auto [number, pass] = name.split('-');
  return number.size() >= 2 && llvm::all_of(number, llvm::isDigit) && findPass(pass);
}

llvm::Error cannotDump(const std::string &path, const std::error_code &code) {
  return failf(ExitCode::IO, "--dump-ir: cannot write {}: {}", path, code.message());
}

} // namespace

std::string PassDumps::fileName(size_t number, const PassInfo &pass) {
  return fmt::format("{:02}-{}.ir", number, pass.name.str());
}

llvm::Expected<std::string> PassDumps::text(const AnyModel &model,
                                            const std::vector<NodeCost> &costs) {
  TextOptions options;
  options.costs = &costs;
  options.data = TextOptions::Data::None;
  options.digests = false;
  options.scopes = true;
  return toText(model, options);
}

llvm::Error PassDumps::prepare(bool replace) const {
  namespace fs = std::filesystem;
  std::error_code code;
  if (!fs::exists(directory_, code))
    return llvm::Error::success();
  if (fs::exists(directory_ + "/MANIFEST", code))
    return makeError(ExitCode::Usage,
                     fmt::format("--dump-ir: expected a separate directory, got {}, an artifact, "
                                 "which an added file would damage",
                                 directory_),
                     "choose a path outside the artifact");
  std::vector<std::string> dumps;
  for (fs::directory_iterator entry(directory_, code), end; !code && entry != end;
       entry.increment(code))
    if (isDump(entry->path().filename().string()))
      dumps.push_back(entry->path().string());
  if (code)
    return failf(ExitCode::IO, "--dump-ir: cannot write into {}: {}", directory_, code.message());
  llvm::sort(dumps);
  if (!dumps.empty() && !replace)
    return makeError(ExitCode::Usage,
                     fmt::format("--dump-ir: expected a directory without dumps, got {}, which "
                                 "exists",
                                 dumps.front()),
                     "pass --force to replace the dumps that are there");
  for (const std::string &path : dumps)
    if (!fs::remove(path, code) && code)
      return cannotDump(path, code);
  return llvm::Error::success();
}

llvm::Error PassDumps::write(const PassRun &run) {
  if (!run.changed)
    return llvm::Error::success();
  llvm::Error error = writeFile(run);
  if (!error)
    return llvm::Error::success();
  ErrorText text = describe(std::move(error));
  if (failure_.empty())
    failure_ = text.message;
  return makeError(text.code, text.message, text.help);
}

llvm::Error PassDumps::writeFile(const PassRun &run) {
  if (std::error_code code = makeDirectories(directory_))
    return failf(ExitCode::IO, "--dump-ir {}: cannot create: {}", directory_, code.message());
  std::string content = TRY(text(*run.model, run.context->costs));
  std::string path = directory_ + "/" + fileName(++count_, *run.info);
  std::error_code code = pipec::writeFile(path, content);
  return code ? cannotDump(path, code) : llvm::Error::success();
}

} // namespace pipec
