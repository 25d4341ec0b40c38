// What every file that the compiler writes is made of: a hierarchy of modules that hold weights,
// and methods.
#pragma once

#include "ir/artifact/ArgumentNames.h"
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

/// What the modules of one file have in common: the hierarchy that weights are registered in, and
/// methods.
class ModuleBuilder {
public:
  /// training: of the flags that every module gets.
  ModuleBuilder(std::string className, bool training);

protected:
  torch::jit::Module makeModule(const std::string &name);
  /// a.b_c and a_b.c are two modules.
  std::string freshClassName(const std::string &wish);
  /// The module that holds attribute `path`, made on the way. Its last component stays in `leaf`.
  torch::jit::Module holderOf(llvm::StringRef path, std::string &leaf);
  void registerAs(const std::string &path, AttributeKind kind, const c10::IValue &value,
                  const c10::TypePtr &type);
  /// A new method's graph; its input is the module.
  std::shared_ptr<torch::jit::Graph> beginMethod();
  torch::jit::Value *addInput(torch::jit::Graph &graph, llvm::StringRef name,
                              const c10::TypePtr &type);
  torch::jit::Value *loadAttribute(torch::jit::Graph &graph, llvm::StringRef path);
  void storeAttribute(torch::jit::Graph &graph, llvm::StringRef path, torch::jit::Value *value);
  torch::jit::Function *finish(const std::string &method,
                               const std::shared_ptr<torch::jit::Graph> &graph,
                               torch::jit::Value *result);

  std::string className_;
  bool training_;
  std::shared_ptr<torch::jit::CompilationUnit> unit_;
  torch::jit::Module module_;

private:
  /// The module of this path; each is read once in a method.
  torch::jit::Value *holderValue(torch::jit::Graph &graph, llvm::StringRef path);

  // Of the method that is being made:
  ArgumentNames names_;                                // of its arguments
  std::map<std::string, torch::jit::Value *> holders_; // modules that were read, by path
};

} // namespace pipec
