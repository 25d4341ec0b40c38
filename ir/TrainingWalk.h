// What a method computes with its training flags as they are, and with all flags off.
#pragma once

#include "ir/RandomOps.h"
#include "ir/TrainingModules.h"
#include "llvm/ADT/ArrayRef.h"

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>

#include <array>
#include <set>
#include <string>
#include <unordered_map>

namespace pipec {

/// Follows a method through the modules and functions that it calls, in two modes at once: as saved
/// and in eval mode. Nothing runs: values are constants, numbers computed from constants and
/// attributes, or unknown. A branch whose condition is known is taken; of an unknown one both
/// sides count. A module is found where its code does one thing as saved and another in eval mode:
/// an operator has other arguments, runs in one mode only and leaves a trace, or a branch gives
/// another tensor. A number or a text that differs is no difference by itself, but what takes the
/// number is.
class TrainingWalk {
public:
  /// `path`: the module's name in the model.
  TrainingWalk(const torch::jit::Module &module, const std::string &method,
               const std::string &path);

  TrainingModules found;

private:
  using Node = torch::jit::Node;
  using Block = torch::jit::Block;
  using Value = torch::jit::Value;

  enum Mode { Saved, Eval };
  enum class Modes { Both, OnlySaved, OnlyEval };

  /// A value in one mode.
  struct Fact {
    std::optional<c10::IValue> known;
    size_t id = 0;          // equal ids: the same value
    size_t made = 0;        // the id of the oldest value that may share its memory
    bool isPresent = false; // not None
    std::string path;       // known to be a module: its name in the model
  };
  using Facts = std::array<Fact, 2>;
  struct Call {
    std::string path; // of the module whose code this is
    bool isTraining;  // whether the flag of this module is set
    std::unordered_map<const Value *, Facts> facts;
  };

  static llvm::ArrayRef<Mode> each(Modes modes);
  static bool isTraining(const c10::IValue &object);
  static bool isNumberOrText(const c10::Type &type);
  static bool areSame(const Fact &a, const Fact &b);

  void visit(Block &block, Call &call, Modes modes);
  void visit(Node *node, Call &call, Modes modes);
  void readAttribute(Node *node, Call &call, Modes modes);
  void visitIf(Node *node, Call &call, Modes modes);
  void visitBlocks(Node *node, Call &call, Modes modes);
  bool visitCall(Node *node, Call &call, Modes modes);
  void visitOperator(Node *node, Call &call, Modes modes);
  std::optional<c10::IValue> compute(Node *node, Call &call, Mode mode) const;
  Draws draws(Node *node, Call &call, Mode mode) const;
  bool isActive(Node *node, Call &call, Mode mode) const;
  void compareModes(Node *node, Call &call);
  void noteOneSided(Node *node, Call &call, Modes modes);
  Fact unknown(const Value *value);
  void setUnknown(Node *node, Call &call, Modes modes);

  std::set<std::string> assigned_; // names of attributes that the code assigns
  size_t lastId_ = 0;
  size_t regionStart_ = 0; // the last id before the code of one mode only
};

} // namespace pipec
