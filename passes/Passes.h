// Every pass of pipec, one function per pass. The pass's own file defines the function, which
// returns its row of the registry.
//
// To add a pass:
//   1. passes/MyPass.cpp: the class in an anonymous namespace, then `PassInfo pipec::myPass() {
//   return {...}; }`
//   2. here: `PassInfo myPass();` at its place in the order of the pipeline
//   3. passes/Registry.cpp: `myPass(),` at the same place
//   4. passes/CMakeLists.txt: `MyPass.cpp`
// Tests: tests/passes/my-pass.ir (lit). The name in the row is kebab-case; function and file have
// the same words.
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
//             .options = "",
//             .make = withoutOptions<MyPass>()};
//   }
#pragma once

#include "passes/Pass.h"
#include "passes/PassOptions.h"

namespace pipec {

// Rows in the order of the pipeline. Add a new one at its place here and in Registry.cpp.

PassInfo inlineCalls();
PassInfo resolveMarkers();
PassInfo lowerAttributes();
PassInfo openWeightLists();
PassInfo splitOutputs();
PassInfo simplify();
PassInfo foldConstants();
PassInfo lowerTuples();
PassInfo unrollLoops();
PassInfo removeListMutation();
PassInfo functionaliseContainers();
PassInfo commonSubexpression();
PassInfo removeInplace();
PassInfo deadCode();
PassInfo splitBranches();
PassInfo printAlias();
PassInfo chooseCuts();
PassInfo legaliseCuts();
PassInfo rematerialise();
PassInfo insertTransfers();
PassInfo resolveTies();

} // namespace pipec
