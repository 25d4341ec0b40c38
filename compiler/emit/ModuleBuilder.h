// The common parts of every file that the compiler writes: a hierarchy of modules that hold
// weights, and methods.
#pragma once

#include "ir/artifact/ArgumentNames.h"
#include "ir/support/Error.h"
#include "llvm/ADT/StringRef.h"

#include <torch/csrc/jit/api/module.h>

#include <map>
#include <memory>
#include <string>

namespace torch::jit {
struct Graph;
struct Value;
} // namespace torch::jit

namespace pipec {

/// Builds the modules of one file: the hierarchy that weights are registered in, and methods.
class ModuleBuilder {
public:
  /// `training` is the flag of every module.
  ModuleBuilder(std::string className, bool training);

protected:
  torch::jit::Module makeModule(const std::string &name);
  /// A class name that is not taken: a.b_c and a_b.c must be two modules.
  std::string freshClassName(const std::string &wish);
  /// The module that holds attribute `path`; missing modules are made. `leaf` gets the last
  /// component.
  torch::jit::Module holderOf(llvm::StringRef path, std::string &leaf);
  /// `isPlain`: a tensor that is neither a parameter nor a buffer of the model is neither here.
  void registerAs(const std::string &path, AttributeKind kind, bool isPlain,
                  const c10::IValue &value, const c10::TypePtr &type);
  /// Begins a new method; its graph has the module as input.
  std::shared_ptr<torch::jit::Graph> beginMethod();
  torch::jit::Value *addInput(torch::jit::Graph &graph, llvm::StringRef name,
                              const c10::TypePtr &type);
  torch::jit::Value *loadAttribute(torch::jit::Graph &graph, llvm::StringRef path);
  void storeAttribute(torch::jit::Graph &graph, llvm::StringRef path, torch::jit::Value *value);
  /// Adds the method. Errors: those of lintGraph.
  llvm::Expected<torch::jit::Function *> finish(const std::string &method,
                                                const std::shared_ptr<torch::jit::Graph> &graph,
                                                torch::jit::Value *result);

  std::string className_;
  bool training_;
  std::shared_ptr<torch::jit::CompilationUnit> unit_;
  torch::jit::Module module_;

private:
  /// The value of the module at this path. A method reads each module once.
  torch::jit::Value *holderValue(torch::jit::Graph &graph, llvm::StringRef path);

  // The method in progress:
  ArgumentNames names_;                                // of its arguments
  std::map<std::string, torch::jit::Value *> holders_; // modules already read, by path
};

} // namespace pipec
