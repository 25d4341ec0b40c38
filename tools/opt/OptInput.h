// The input of pipe-opt: a saved module, TorchScript source, or models as text. After an internal
// error it also makes the input part of a reproducer.
#pragma once

#include "ir/text/ModelParser.h"
#include "tools/cli/ToolMain.h"

namespace pipec {

class OptInput {
public:
  std::string file = "-";    // standard input
  std::string method;        // of a module
  std::string dataDirectory; // of the weights that the text refers to; empty: the file's
  bool torchscript = false;  // the text is TorchScript source

  /// Errors: Usage, IO, Unreadable, each naming the file.
  llvm::Expected<std::vector<ParsedModel>> read();

  /// The parts that need no work.
  ReproducerParts parts(const std::string &passes);
  /// Writes the part that needs work into the reproducer's directory: the model after each pass, or
  /// a text that needs no other file. Errors: IO.
  llvm::Error trace(const std::string &directory, const std::string &passes, bool verifyEach);

private:
  bool isModule() const;
  bool namesWeights() const;
  std::string inputName() const;
  llvm::Error readText();
  llvm::Expected<std::vector<ParsedModel>> parse() const;
  std::string textWithoutWeights() const;
  void dumpPasses(const std::string &directory, const std::string &passes, bool verifyEach) const;

  std::string text_; // as it was read
};

} // namespace pipec
