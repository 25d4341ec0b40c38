// The table of random operators. Compiler and runtime count them alike: the n-th random operator of
// the source has ordinal n.
#pragma once

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"

namespace pipec {

/// Whether operators with this qualified name ("aten::dropout", any overload) may draw. A call
/// whose arguments switch drawing off (see Draws) takes no ordinal.
bool isRandomOp(llvm::StringRef qualifiedName);

/// Whether the number of draws of such an operator follows its values and not only its sizes:
/// sampling by rejection (poisson), or draws for some elements only (rrelu). Operators after it
/// then draw other numbers, too.
bool drawCountFollowsValues(llvm::StringRef qualifiedName);

/// The known properties of one argument of an operator.
struct Argument {
  enum class State { Absent, Unknown, Known } state = State::Absent;
  double value = 0; // Known: a number, or a bool as 0 or 1
};

/// Whether a run of the operator draws, as far as its arguments tell. Never: the operator is not in
/// the table, or it is a dropout, attention, recurrent network or rrelu whose switch is off. The
/// compiler asks with the constants of the graph, the runtime with the values of the call. If the
/// compiler's answer is not Unknown, the runtime gets the same answer.
enum class Draws { Never, Always, Unknown };
Draws drawsWith(llvm::StringRef qualifiedName,
                llvm::function_ref<Argument(llvm::StringRef name)> argument);

} // namespace pipec
