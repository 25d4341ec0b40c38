#include "compiler/verify/Validate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pipec {
namespace {

/// "every byte" only where every byte was read.
TEST(WhatWasProvedTest, saysWhatWasReadBackOfLargeWeights) {
  using testing::HasSubstr;
  using testing::Not;
  SourceRecord source;
  source.stable = std::make_shared<StableBytes>();
  const auto weight = std::make_shared<std::string>(size_t(1) << 17, 'w');
  source.stable->add(*weight, weight);
  EXPECT_THAT(whatWasProved(source, ReadBack::Ends), HasSubstr("every byte of its weights"));
  source.stable->noteWritten(FileId{1, 1}, 64, *weight);
  EXPECT_THAT(whatWasProved(source, ReadBack::Ends), HasSubstr("their ends read back"));
  EXPECT_THAT(whatWasProved(source, ReadBack::Ends), Not(HasSubstr("every byte")));
  EXPECT_THAT(whatWasProved(source, ReadBack::All), HasSubstr("every byte of its weights"));
}

} // namespace
} // namespace pipec
