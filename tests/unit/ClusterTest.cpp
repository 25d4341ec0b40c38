// Cluster files and cost tables: strict reading, what links stand for, and that the
// examples of the documentation are read.
#include "ir/costs/Cluster.h"

#include "ir/costs/CostTable.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/FileSystem.h"
#include "tests/support/Matchers.h"

#include <cstdlib>

namespace pipec {
namespace {

constexpr const char *kTwo = R"({"schema_version": 1,
  "devices": [{"name": "cpu:0", "kind": "cpu", "cores": [0, 1], "memory_bytes": 1000},
              {"name": "cuda:0", "kind": "cuda", "flops_per_second": 10, "bytes_per_second": 20}],
  "links": [{"between": ["cuda:0", "cpu:0"], "bytes_per_second": 2000000000, "latency_ns": 5, "shared": true},
            {"between": ["*", "*"], "latency_ns": 7}]})";

llvm::Expected<Cluster> edited(llvm::StringRef from, llvm::StringRef to) {
  const auto [before, after] = llvm::StringRef(kTwo).split(from);
  EXPECT_NE(before.size(), llvm::StringRef(kTwo).size()) << from.str();
  return clusterFromJson((before + to + after).str(), "two.json");
}

TEST(Cluster, readsEveryField) {
  const Cluster cluster = llvm::cantFail(clusterFromJson(kTwo, "two.json"));
  ASSERT_EQ(cluster.devices.size(), 2u);
  EXPECT_EQ(cluster.devices[0].cores, (std::vector<size_t>{0, 1}));
  EXPECT_EQ(cluster.devices[0].flopsPerSecond, 2 * kCoreFlopsPerSecond);
  EXPECT_EQ(cluster.devices[0].memoryBytes, 1000);
  EXPECT_EQ(cluster.devices[1].kind, ClusterDevice::Kind::Cuda);
}

TEST(Cluster, linksStandForPairs) {
  const Cluster cluster = llvm::cantFail(clusterFromJson(kTwo, "two.json"));
  EXPECT_EQ(cluster.linkBetween("cpu:0", "cuda:0").latencyNs, 5); // in both directions
  EXPECT_TRUE(cluster.linkBetween("cuda:0", "cpu:0").shared);
  EXPECT_EQ(cluster.linkBetween("cuda:0", "cpu:0").nanoseconds(2000), 1005);
  EXPECT_EQ(cluster.linkBetween("cpu:0", "cpu:0").latencyNs, 7);
  EXPECT_LT(defaultCluster(2).linkBetween("cpu:0", "cpu:1").nanoseconds(1 << 20), 10'000);
  EXPECT_EQ(Cluster().linkBetween("cpu:0", "cpu:1"), ClusterLink());
}

TEST(Cluster, saysWhatIsWrong) {
  struct Case {
    const char *from, *to, *message;
  };
  for (const Case &c : {
           Case{"\"cuda\"", "\"gpu\"", "devices[1].kind: expected cpu or cuda, got \"gpu\""},
           {"\"cuda:0\", \"kind\"", "\"cpu:0\", \"kind\"", "expected a name of its own"},
           {"\"cuda:0\", \"kind\"", "\"*\", \"kind\"", "expected a name, got \"*\""},
           {"[0, 1]", "[0, 0]", "devices[0].cores: expected each core once"},
           {", \"flops_per_second\": 10", "", "expected the rate of a cuda device, got none"},
           {", \"bytes_per_second\": 20", "", "expected the rate of a cuda device's memory"},
           {"\"flops_per_second\": 10", "\"flops_per_second\": 10, \"cores\": [1]",
            "of a cuda device"},
           {"\"memory_bytes\": 1000", "\"memory_bytes\": 0", "devices[0].memory_bytes"},
           {"\"memory_bytes\"", "\"memory\"", "unknown key \"memory\""},
           {"[\"cuda:0\", \"cpu:0\"]", "[\"cuda:0\"]",
            "links[0].between: expected two devices, got 1"},
           {"[\"cuda:0\", \"cpu:0\"]", "[\"cuda:0\", \"cpu:1\"]", "there is no device \"cpu:1\""},
           {"\"schema_version\": 1", "\"schema_version\": 2", "schema_version"},
       })
    EXPECT_TRUE(failedWith(edited(c.from, c.to), ExitCode::Usage, c.message)) << c.from;
  EXPECT_TRUE(failedWith(clusterFromJson(R"({"schema_version": 1, "devices": []})", "none.json"),
                         ExitCode::Usage, "none.json: devices: expected at least one, got none"));
  EXPECT_TRUE(failedWith(readCluster("/no/such.json"), ExitCode::IO, "cannot read /no/such.json"));
}

TEST(Cluster, examplesOfTheDocumentation) {
  const char *source = std::getenv("PIPEC_SOURCE");
  if (!source)
    GTEST_SKIP() << "PIPEC_SOURCE is not set";
  size_t files = 0;
  std::error_code error;
  for (llvm::sys::fs::directory_iterator it(std::string(source) + "/docs/clusters", error), end;
       it != end && !error; it.increment(error), ++files)
    EXPECT_TRUE(succeeded(readCluster(it->path()))) << it->path();
  EXPECT_GE(files, 3u);
}

TEST(CostTable, roundTripsAndSaysWhatIsWrong) {
  const CostTable table{{{"aten::mm", "encoder.fc", 1200, 64}, {"aten::relu", "", 0, 0}}};
  EXPECT_EQ(llvm::cantFail(costTableFromJson(toJson(table), "costs.json")), table);
  EXPECT_EQ(table.sum(0, table.rows.size()).forwardNs, 1200);
  EXPECT_TRUE(failedWith(costTableFromJson(R"({"schema_version": 1, "operators": [{"op": "a",
      "module": "", "forward_ns": -1, "output_bytes": 0}]})",
                                           "costs.json"),
                         ExitCode::Usage, "costs.json: operators[0].forward_ns"));
  CostTable full = table; // with a backward, and taken on a busy machine
  full.atOnce = 2;
  full.rows[0] = {"aten::mm", "encoder.fc", 1200, 64, 1000, 1300, 1100, 96, 32};
  EXPECT_EQ(llvm::cantFail(costTableFromJson(toJson(full), "costs.json")), full);
  EXPECT_EQ(toJson(table).find("_grad_ns"), std::string::npos);
  full.training = true; // with what the joint search needs
  full.batch = 8;
  full.rows[0].trainedBytes = 32;
  full.rows[1].reads = {0};
  full.rows[1].withPrevious = true;
  EXPECT_EQ(toJson(full).find("pending"), std::string::npos); // as older tables
  full.pending = true;
  full.rows[0].pendingBytes = 160;
  EXPECT_EQ(full.sum(0, full.rows.size()).pendingBytes, 160);
  full.shared = {{"wte", 32, true, {0, 1}}};
  EXPECT_EQ(llvm::cantFail(costTableFromJson(toJson(full), "costs.json")), full);
  auto refused = [](const std::string &row, const std::string &top, const char *what) {
    const std::string text = R"({"schema_version": 1, "training": true, "operators": [{"op": "a",
        "module": "", "forward_ns": 1, "output_bytes": 0, "weight_bytes": 4)" +
                             row + "}]" + top + "}";
    EXPECT_TRUE(failedWith(costTableFromJson(text, "costs.json"), ExitCode::Usage, what)) << text;
  };
  refused(R"(, "reads": [0])", "", "operators[0].reads: expected ascending positions");
  refused(R"(, "trained_bytes": 5)", "", "operators[0].trained_bytes: expected at most");
  refused("", R"(, "shared_weights": [{"name": "w", "bytes": 4, "trained": true,
                                       "readers": [0]}])",
          "shared_weights[0].readers: expected at least 2, got 1");
  EXPECT_TRUE(failedWith(
      costTableFromJson(R"({"schema_version": 1, "at_once": 0, "operators": []})", "costs.json"),
      ExitCode::Usage, "costs.json: at_once"));
  EXPECT_TRUE(failedWith(costTableFromJson("{", "costs.json"), ExitCode::Usage, "costs.json"));
}

TEST(CostTable, addsUpStages) {
  CostTable table{{{"a", "", 10, 1}, {"b", "", 20, 2}, {"c", "", 40, 4}}};
  table.rows[1].forwardAloneNs = 15;
  table.rows[1].weightBytes = 7;
  EXPECT_EQ(table.sum(0, 1), (CostRow{"", "", 10, 1}));
  EXPECT_EQ(table.sum(0, 1).aloneNs(), 10);
  const CostRow all = table.sum(0, 3);
  EXPECT_EQ(all.forwardNs, 70);
  EXPECT_EQ(all.aloneNs(), 65); // those without a time of their own count in full
  EXPECT_EQ(all.outputBytes, 7);
  EXPECT_EQ(all.weightBytes, 7);
}

} // namespace
} // namespace pipec
