#include "passes/PassTable.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"
#include "passes/Pass.h"
#include "passes/Registry.h"

namespace pipec {
namespace {

/// The kinds of model that a pass takes and returns.
const char *kindOf(const PassInfo &info) {
  constexpr const char *kinds[] = {"model to model", "stages to stages", "model to stages",
                                   "a group of passes, model to model"};
  return kinds[info.make.index()];
}

/// `text` without blank first lines and without the indentation that all lines share.
std::string dedented(llvm::StringRef text) {
  llvm::SmallVector<llvm::StringRef, 16> lines;
  text.trim('\n').split(lines, '\n');
  size_t margin = llvm::StringRef::npos;
  for (llvm::StringRef line : lines)
    if (!line.trim().empty())
      margin = std::min(margin, line.size() - line.ltrim(' ').size());
  std::string out;
  for (llvm::StringRef line : lines)
    out += line.drop_front(std::min(margin, line.size())).rtrim().str() + "\n";
  return out;
}

} // namespace

std::vector<std::string> passNames() {
  std::vector<std::string> names;
  for (const PassInfo &info : allPasses())
    names.push_back(info.name.str());
  return names;
}

void printPassList(llvm::raw_ostream &os) {
  for (const PassInfo &info : allPasses())
    os << llvm::formatv("{0,-20} {1}\n", info.name, info.description);
}

void printPassesMarkdown(llvm::raw_ostream &os) {
  for (const PassInfo &info : allPasses()) {
    os << "\n## " << info.name << "\n\n" << info.description << " (" << kindOf(info) << ").\n\n";
    os << "- Requires: " << info.requires_ << "\n- Guarantees: " << info.guarantees << "\n";
    if (!info.options.meanings.empty())
      os << "- Options:\n";
    for (const auto &[form, meaning] : info.options.meanings)
      os << "  - `" << form << "`: " << meaning << "\n";
    os << "\n```\n" << dedented(info.example) << "```\n";
  }
}

} // namespace pipec
