// print-alias: writes the alias analysis of the model to standard output; for tests and for people.
#include "ir/support/ShownStream.h"
#include "llvm/Support/raw_ostream.h"
#include "passes/Passes.h"
#include "passes/analysis/AliasAnalysis.h"

#include <sstream>

namespace pipec {

namespace {

class PrintAlias : public ModelPass {
public:
  llvm::Expected<bool> run(Model &model, PassContext &) override {
    std::string text;
    llvm::raw_string_ostream os(text);
    AliasAnalysis(model).print(os);
    // Comments, so that the output of pipe-opt still parses.
    std::istringstream lines(os.str());
    for (std::string line; std::getline(lines, line);)
      toStdout() << "# " << line << "\n";
    return false;
  }
};

} // namespace

PassInfo printAlias() {
  return {.name = "print-alias",
          .description = "prints which values share memory, where it is written, and which cuts "
                         "would separate a write from its aliases",
          .requires_ = "a flat graph",
          .guarantees = "the model is unchanged",
          .example = R"(
    %2 : Tensor = aten::relu(%1)
    %3 : Tensor = aten::relu_(%2)
    =>
    # memory 1: %2 %3 defined 0 touched 1..1 written 1..1 aten::relu_
    # together (0, 1] memory 1)",
          .make = withoutOptions<PrintAlias>()};
}

} // namespace pipec
