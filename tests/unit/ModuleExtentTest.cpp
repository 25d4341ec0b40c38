#include "ir/plan/ModuleExtent.h"

#include "gtest/gtest.h"

namespace pipec {
namespace {

using Extents = std::vector<ModuleExtent>;

/// All of the model is in a wrapper, and every layer is followed by an operator of the wrapper.
TEST(ModuleExtent, aModuleAroundAllStagesNamesNone) {
  EXPECT_EQ(moduleExtents({{"model.first"},
                           {"model", "model.layers.0", "model", "model.layers.1"},
                           {"model", "model.layers.2", "model"},
                           {"model", "model.head"}}),
            (Extents{{"model.first", "model.first"},
                     {"model.layers.0", "model.layers.1"},
                     {"model.layers.2", "model.layers.2"},
                     {"model.head", "model.head"}}));
}

TEST(ModuleExtent, aModuleThatIsNotCutNamesItsStage) {
  EXPECT_EQ(moduleExtents({{"a", "a.norm", "a.wide", "a"}, {"b.norm", "b"}}),
            (Extents{{"a", "a"}, {"b.norm", "b"}}));
}

/// It has no submodules there that could name the stage.
TEST(ModuleExtent, aCutModuleNamesAStageWithoutItsSubmodules) {
  EXPECT_EQ(moduleExtents({{"a.norm", "b"}, {"b", "c", "a"}, {"a"}}),
            (Extents{{"a.norm", "b"}, {"b", "a"}, {"a", "a"}}));
}

TEST(ModuleExtent, callsOfOneModuleAreTwo) {
  EXPECT_EQ(moduleExtents({{"a", "a.b"}, {"a#2", "a#2.b"}, {}}),
            (Extents{{"a", "a.b"}, {"a#2", "a#2.b"}, {"", ""}}));
}

} // namespace
} // namespace pipec
