// The functions that Passes.def lists, one per pass. The pass's own file defines the function,
// which returns its row of the registry. This header has no names of its own.
//
// To add a pass:
//   1. passes/MyPass.cpp: the class in an anonymous namespace, then the function below. Contract:
//      passes/Pass.h
//   2. passes/Passes.def: `PASS(myPass)` at its place in the order of the pipeline
//   3. passes/CMakeLists.txt: `MyPass.cpp`
//   4. compiler/Pipelines.cpp: its step in a pipeline, or passes/Simplify.cpp: its step in the
//      group. Without this only pipe-opt runs it.
//   5. tests/passes/my-pass.ir (lit), and a row in tests/e2e/faulty_passes.py
//   6. docs/passes.md: tools/make-docs writes it
// The name in the row is kebab-case. Function and file have the same words, with two exceptions:
// `inline` is inlineCalls() in Inline.cpp, because inline is a word of C++, and `cse` is
// commonSubexpression() in CommonSubexpression.cpp.
//
//   PassInfo pipec::myPass() {
//     return {.name = "my-pass",
//             .description = "does one thing",
//             .requires_ = "what must hold before",
//             .guarantees = "what holds after",
//             .example = R"(
//     %2 : Tensor = aten::relu(%1)
//     =>
//     ...)",
//             .make = withoutOptions<MyPass>()};
//   }
// A pass with options has them as a struct in passes/MyPass.h (passes/PassOptions.h says how), and
// `.options = optionsOf<MyPassOptions>(), .make = withOptions<MyPass, MyPassOptions>()` in its row.
#pragma once

#include "passes/Pass.h"

namespace pipec {

#define PASS(function) PassInfo function();
#include "passes/Passes.def"
#undef PASS

} // namespace pipec
