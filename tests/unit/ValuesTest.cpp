// Values files, descriptions, binding of arguments, comparison.
#include "ir/plan/DefaultValue.h"
#include "ir/support/MachineMemory.h"
#include "ir/support/Quantities.h"
#include "ir/values/BindArguments.h"
#include "ir/values/CompareValues.h"
#include "ir/values/DescribedArguments.h"
#include "ir/values/PickledNumbers.h"
#include "ir/values/ValueFiles.h"
#include "tests/support/Matchers.h"
#include "tests/unit/TempDir.h"

#include <gtest/gtest.h>

#include <ATen/Functions.h>
#include <ATen/core/Dict.h>
#include <ATen/core/List.h>
#include <ATen/core/jit_type.h>
#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

using namespace pipec;
using namespace std::string_literals;

namespace {

c10::IValue tuple(std::vector<c10::IValue> elements) {
  return c10::ivalue::Tuple::create(std::move(elements));
}

/// A tree with everything that a values file may hold.
c10::IValue richTree() {
  c10::impl::GenericList list(c10::AnyType::get());
  list.push_back(int64_t(7));
  list.push_back(2.5);
  list.push_back("text");
  list.push_back(true);
  list.push_back(c10::IValue());
  c10::Dict<std::string, at::Tensor> dict;
  dict.insert("half", at::arange(4).to(at::kBFloat16));
  dict.insert("flags", at::ones({3}, at::kBool));
  at::Tensor base = at::arange(100, at::kFloat);
  return tuple({base.view({10, 10}).t(), base.narrow(0, 3, 2), list, dict,
                tuple({c10::List<int64_t>({1, 2}), at::scalar_tensor(3)})});
}

/// The bytes of a values file.
std::string writtenBytes(const TempDir &dir, const c10::IValue &value) {
  EXPECT_TRUE(succeeded(writeValue(dir.path("bytes.pt"), value)));
  return dir.read("bytes.pt");
}

} // namespace

TEST(Values, TreeSurvivesTheFile) {
  TempDir dir;
  std::string path = dir.path("v.pt");
  c10::IValue tree = richTree();
  ASSERT_FALSE(bool(writeValue(path, tree)));
  c10::IValue back = take(readValue(path));
  Comparison same = compare(tree, back, 0.0, 0.0);
  EXPECT_TRUE(same.equal) << same.firstDifference;
  EXPECT_EQ(back.toTupleRef().elements()[0].toTensor().strides(), (at::IntArrayRef{1, 10}));
  EXPECT_EQ(dir.entries(), std::vector<std::string>{"v.pt"});
}

/// A number of n bytes as torch.save writes it.
std::string pickledNumber(const std::string &bytes) {
  return "\x8a" + std::string(1, static_cast<char>(bytes.size())) + bytes;
}

TEST(PickledNumbers, AreWrittenInEightBytes) {
  const std::string begin = "\x80\x02(K\x07X\x03\0\0\0a\x8a\x01"s, end = "t."s;
  auto rewritten = [&](const std::string &bytes) {
    return withNumbersOf8Bytes(begin + pickledNumber(bytes) + end);
  };
  EXPECT_EQ(rewritten("\0\0\0\x80\0"s), begin + pickledNumber("\0\0\0\x80\0\0\0\0"s) + end);
  EXPECT_EQ(rewritten("\0\0\0\0\xfe"s), begin + pickledNumber("\0\0\0\0\xfe\xff\xff\xff"s) + end);
  EXPECT_EQ(rewritten("\1\2\3\4\5\6\7\x08"s), std::nullopt); // LibTorch reads it
  EXPECT_EQ(rewritten("\1\2\3\4\5\6\7\x08\x09"s), std::nullopt);
  EXPECT_EQ(withNumbersOf8Bytes(begin + end), std::nullopt);
  EXPECT_EQ(withNumbersOf8Bytes("\x80\x02\x8a\x05z"), std::nullopt); // torn
  EXPECT_EQ(withNumbersOf8Bytes("\x80\x04\x95"), std::nullopt);
}

TEST(Values, SameValueGivesSameBytes) {
  TempDir dir;
  EXPECT_EQ(writtenBytes(dir, richTree()), writtenBytes(dir, richTree()));
}

TEST(Values, ViewWritesOnlyItsElements) {
  TempDir dir;
  at::Tensor large = at::zeros({1000000});
  EXPECT_LT(writtenBytes(dir, large.narrow(0, 500, 4)).size(), 4000u);
}

TEST(Values, PythonReadsTheFileWithDefaultLoad) {
  const char *python = std::getenv("PIPEC_PYTHON");
  if (!python)
    GTEST_SKIP() << "PIPEC_PYTHON names no Python with torch";
  TempDir dir;
  ASSERT_FALSE(bool(writeValue(dir.path("v.pt"), richTree())));
  std::string script = R"(
import sys, torch
t = torch.load(sys.argv[1])
assert type(t) is tuple and len(t) == 5
b = torch.arange(100.)
assert torch.equal(t[0], b.view(10, 10).t()) and t[0].stride() == (1, 10)
assert torch.equal(t[1], b[3:5]) and t[1].untyped_storage().nbytes() == 8
assert t[2] == [7, 2.5, 'text', True, None] and type(t[2]) is list and type(t[2][3]) is bool
assert type(t[3]) is dict and list(t[3]) == ['half', 'flags'] and t[3]['half'].dtype == torch.bfloat16
assert t[3]['flags'].dtype == torch.bool and t[4][0] == [1, 2] and t[4][1].shape == ()
)";
  std::ofstream(dir.path("check.py")) << script;
  EXPECT_EQ(
      std::system(
          (std::string(python) + " " + dir.path("check.py") + " " + dir.path("v.pt")).c_str()),
      0);
}

TEST(Values, UnwritableTargetIsNamedAndLeavesNothing) {
  TempDir dir;
  ErrorText error = describe(writeValue(dir.path("no/such/v.pt"), at::ones({1})));
  EXPECT_EQ(error.code, ExitCode::IO);
  EXPECT_NE(error.message.find("no/such/v.pt: cannot write: no such file"), std::string::npos)
      << error.message;
  error = describe(writeValue("/dev/full", at::ones({1})));
  EXPECT_EQ(error.code, ExitCode::IO);
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full")) << "a device must not be replaced";
  error = describe(writeValue(dir.path("v.pt"), c10::IValue(at::Device("cpu"))));
  EXPECT_EQ(error.code, ExitCode::Unsupported);
  EXPECT_NE(error.message.find("holds a value of type Device"), std::string::npos) << error.message;
  EXPECT_TRUE(dir.entries().empty());
}

TEST(Values, ArgumentsByKindOfContent) {
  TempDir dir;
  std::string path = dir.path("v.pt");
  auto argumentsOf = [&](const c10::IValue &value) {
    EXPECT_FALSE(bool(writeValue(path, value)));
    return readArguments(path);
  };
  EXPECT_EQ(take(argumentsOf(at::ones({2}))).positional.size(), 1u);
  EXPECT_EQ(take(argumentsOf(tuple({1, 2}))).positional.size(), 2u);
  EXPECT_EQ(take(argumentsOf(c10::List<int64_t>({1, 2, 3}))).positional.size(), 3u);
  c10::Dict<std::string, int64_t> dict;
  dict.insert("x", 1);
  EXPECT_EQ(take(argumentsOf(dict)).keyword.at(0).first, "x");
  c10::Dict<int64_t, int64_t> numbered;
  numbered.insert(1, 1);
  EXPECT_NE(errorOf(argumentsOf(numbered)).message.find("names as keys"), std::string::npos);
  EXPECT_NE(errorOf(argumentsOf(int64_t(3))).message.find("got one value of type Int"),
            std::string::npos);
}

TEST(Values, UnreadableFilesSayWhatTheyAre) {
  TempDir dir;
  auto messageOf = [&](const std::string &bytes) {
    std::ofstream(dir.path("f"), std::ios::binary) << bytes;
    ErrorText error = errorOf(readArguments(dir.path("f")));
    EXPECT_EQ(error.code, ExitCode::Unreadable);
    return error.message;
  };
  std::string good = writtenBytes(dir, at::ones({4}));
  EXPECT_NE(messageOf("").find("the file is empty"), std::string::npos);
  EXPECT_NE(messageOf("hello").find("expected values that torch.save wrote, got text"),
            std::string::npos);
  EXPECT_NE(messageOf("\x80\x02}q.").find("got a pickle"), std::string::npos);
  EXPECT_NE(messageOf(good.substr(0, good.size() - 30)).find("truncated"), std::string::npos);
  EXPECT_EQ(errorOf(readArguments(dir.path("none"))).code, ExitCode::IO);
  EXPECT_NE(errorOf(readArguments(dir.path(""))).message.find("got a directory"),
            std::string::npos);
}

TEST(Values, EveryTruncationOfASmallFileIsAnError) {
  TempDir dir;
  for (at::ScalarType dtype : {at::kFloat, at::kUInt16}) {
    std::string good = writtenBytes(dir, at::ones({2}, dtype));
    for (size_t n = 0; n < good.size(); n += 7) {
      std::ofstream(dir.path("f"), std::ios::binary) << good.substr(0, n);
      EXPECT_EQ(errorOf(readValue(dir.path("f"))).code, ExitCode::Unreadable) << n << " bytes";
    }
  }
}

TEST(Values, ForeignPickleContentIsNamed) {
  TempDir dir;
  struct Case {
    const char *pickle, *message;
  };
  // What torch.save writes for an object of a user's class and for a set.
  Case cases[] = {{"\x80\x02"
                   "cmine\nThing\n)\x81.",
                   "holds an object of type"},
                  {"\x80\x02"
                   "c__builtin__\nset\n]\x85R.",
                   "holds an object of type"}};
  for (const Case &one : cases) {
    std::string bytes;
    {
      caffe2::serialize::PyTorchStreamWriter writer([&](const void *data, size_t n) {
        bytes.append(static_cast<const char *>(data), n);
        return n;
      });
      writer.writeRecord("data.pkl", one.pickle, strlen(one.pickle));
      writer.writeEndOfFile();
    }
    std::ofstream(dir.path("f"), std::ios::binary) << bytes;
    ErrorText error = errorOf(readValue(dir.path("f")));
    EXPECT_EQ(error.code, ExitCode::Unreadable);
    EXPECT_NE(error.message.find(one.message), std::string::npos) << error.message;
  }
}

TEST(Description, MakesTheTensorsItNames) {
  Arguments arguments =
      take(describedArguments("f32[8,3],i64[128]<30000,bool[4],c64[2],bf16[],u8[0,3]"));
  ASSERT_EQ(arguments.positional.size(), 6u);
  auto at = [&](size_t i) { return arguments.positional[i].toTensor(); };
  EXPECT_EQ(at(0).sizes(), (at::IntArrayRef{8, 3}));
  EXPECT_GT(at(0).std().item<float>(), 0.3f);
  EXPECT_EQ(at(1).scalar_type(), at::kLong);
  EXPECT_GT(at(1).max().item<int64_t>(), 1000);
  EXPECT_LT(at(1).max().item<int64_t>(), 30000);
  EXPECT_GE(at(1).min().item<int64_t>(), 0);
  EXPECT_EQ(at(2).scalar_type(), at::kBool);
  EXPECT_EQ(at(3).scalar_type(), at::kComplexFloat);
  EXPECT_EQ(at(4).dim(), 0);
  EXPECT_EQ(at(5).numel(), 0);
}

TEST(Description, SameTextSameBitsAndPositionsDiffer) {
  Arguments once = take(describedArguments("f32[64],f32[64]")),
            again = take(describedArguments("f32[64],f32[64]"));
  EXPECT_TRUE(at::equal(once.positional[0].toTensor(), again.positional[0].toTensor()));
  EXPECT_FALSE(at::equal(once.positional[0].toTensor(), once.positional[1].toTensor()));
  Arguments seeded = take(describedArguments("f32[64]", 1));
  EXPECT_FALSE(at::equal(once.positional[0].toTensor(), seeded.positional[0].toTensor()));
}

TEST(Description, MistakesAreUsageErrorsWithAnExample) {
  for (const char *text :
       {"", "f33[2]", "f32", "f32[2", "f32[2,]", "f32[-1]", "f32[2]<3", "i8[2]<1000", "i64[2]<0",
        "f32[2] f32[2]", "f32[2],", "f32[9999999999999,99999999]"}) {
    ErrorText error = errorOf(describedArguments(text));
    EXPECT_EQ(error.code, ExitCode::Usage) << text;
    EXPECT_NE(error.help.find("f32[8,3,224,224]"), std::string::npos) << text;
  }
}

/// An allocation of more than there is may succeed, and the process end when it is written.
TEST(Description, WhatDoesNotFitIntoMemoryIsRefusedAtOnce) {
  for (const char *text : {"f32[64,3,99999,99999]", "f32[8,3],i64[1000000,1000000]",
                           "bool[1000000,10000000]", "f32[0,3],f16[300000,30000000]"}) {
    ErrorText error = errorOf(describedArguments(text));
    EXPECT_EQ(error.code, ExitCode::Usage) << text;
    EXPECT_NE(
        error.message.find("a quarter of this machine's memory, as runs hold copies of them, got "),
        std::string::npos)
        << error.message;
  }
  ErrorText error = errorOf(describedArguments("f32[64,3,99999,99999]"));
  EXPECT_NE(error.message.find(formatBytes(machineMemoryBytes() / 4)), std::string::npos)
      << error.message;
  EXPECT_NE(error.message.find("got 6.98 TiB"), std::string::npos) << error.message;
  EXPECT_EQ(take(describedArguments("f32[0,99999999,99999]")).positional.size(), 1u);
  // Less than there is, but a run would need several times as much.
  const std::string half = fmt::format("u8[{}]", machineMemoryBytes() / 2);
  EXPECT_EQ(errorOf(describedArguments(half)).code, ExitCode::Usage);
}

/// A small file, but a copy of its tensor has every element.
TEST(Description, AnExpandedTensorOfAFileCountsInFull) {
  TempDir dir;
  const std::string path = dir.path("inputs.pt");
  const std::vector<char> bytes = torch::jit::pickle_save(tuple(
      {at::zeros({2}), at::zeros({1, 1}, at::kLong).expand({int64_t(1) << 20, int64_t(1) << 18})}));
  std::ofstream(path, std::ios::binary).write(bytes.data(), std::ssize(bytes));
  const ErrorText error = errorOf(argumentsFromOption(path));
  EXPECT_EQ(error.code, ExitCode::Usage);
  EXPECT_EQ(error.message,
            fmt::format("inputs {}: expected tensors of at most {}, a quarter of this machine's "
                        "memory, as runs hold copies of them, got 2.00 TiB; argument 1 is "
                        "int64[1048576,262144]",
                        path, formatBytes(machineMemoryBytes() / 4)));
}

TEST(Description, SizesThatAreNoNumbersAreNamed) {
  EXPECT_EQ(errorOf(describedArguments("f32[8,x]")).message,
            "inputs \"f32[8,x]\": expected whole numbers with commas between them, then ], at "
            "\"f32[8,x]\"");
}

TEST(Description, OptionPrefersAFileOfThatName) {
  EXPECT_EQ(take(argumentsFromOption("i64[2]")).positional.size(), 1u);
  EXPECT_EQ(errorOf(argumentsFromOption("inputs.pt")).code, ExitCode::IO);
  EXPECT_EQ(errorOf(argumentsFromOption("f32[")).code, ExitCode::Usage);
}

namespace {

Signature signatureOf(std::vector<std::string> names) {
  Signature signature;
  for (std::string &name : names) {
    signature.inputs.emplace_back();
    signature.inputs.back().name = std::move(name);
  }
  return signature;
}

} // namespace

TEST(Bind, PositionalThenKeywordThenDefault) {
  Signature signature = signatureOf({"x", "scale", "flag"});
  signature.inputs[1].defaultValue = 2;
  signature.inputs[2].defaultValue = false;
  std::vector<c10::TypePtr> types = {c10::TensorType::get(), c10::FloatType::get(),
                                     c10::BoolType::get()};
  auto values = take(bindArguments(signature, types, {{at::ones({2})}, {{"flag", true}}}));
  EXPECT_EQ(values[1].toDouble(), 2.0);
  EXPECT_TRUE(values[2].toBool());

  auto failure = [&](Arguments arguments) {
    return errorOf(bindArguments(signature, types, arguments)).message;
  };
  EXPECT_EQ(failure({}), "argument x: expected a value of type Tensor, got none");
  EXPECT_EQ(failure({{at::ones({1}), 1, true, 4}, {}}),
            "arguments: expected at most 3 (x, scale, flag), got 4");
  EXPECT_EQ(failure({{at::ones({1})}, {{"y", 1}}}),
            "argument y: expected one of x, scale, flag, got an unknown name");
  EXPECT_EQ(failure({{at::ones({1})}, {{"x", 1}}}), "argument x: expected one value, got two");
  EXPECT_EQ(failure({{int64_t(1)}, {}}), "argument x: expected Tensor, got Int");
}

TEST(Bind, TuplesAsDefaults) {
  Signature signature = signatureOf({"pair", "choice"});
  signature.inputs[0].defaultValue =
      tupleDefault(llvm::json::Array{1, tupleDefault(llvm::json::Array{floatDefault(0.5)})});
  signature.inputs[1].defaultValue = tupleDefault(llvm::json::Array{2});
  c10::TypePtr one = c10::TupleType::create({c10::FloatType::get()});
  std::vector<c10::TypePtr> types = {
      c10::TupleType::create({c10::IntType::get(), one}),
      c10::OptionalType::create(c10::TupleType::create({c10::FloatType::get()}))};
  auto values = take(bindArguments(signature, types, {}));
  const auto &pair = values[0].toTupleRef().elements();
  EXPECT_EQ(pair[0].toInt(), 1);
  EXPECT_EQ(pair[1].toTupleRef().elements()[0].toDouble(), 0.5);
  EXPECT_EQ(values[1].toTupleRef().elements()[0].toDouble(), 2.0);
}

TEST(Bind, GenericContainersGetTheDeclaredType) {
  Signature signature = signatureOf({"xs", "named", "pair", "mask"});
  std::vector<c10::TypePtr> types = {
      c10::ListType::ofTensors(),
      c10::DictType::create(c10::StringType::get(), c10::TensorType::get()),
      c10::TupleType::create({c10::TensorType::get(), c10::IntType::get()}),
      c10::OptionalType::create(c10::TensorType::get())};
  c10::impl::GenericList list(c10::AnyType::get());
  list.push_back(at::ones({1}));
  c10::impl::GenericDict dict(c10::AnyType::get(), c10::AnyType::get());
  dict.insert("a", at::ones({1}));
  auto values = take(bindArguments(signature, types,
                                   {{list, dict, tuple({at::ones({1}), 3}), c10::IValue()}, {}}));
  EXPECT_EQ(values[0].toTensorVector().size(), 1u);
  EXPECT_TRUE(values[1].type()->isSubtypeOf(*types[1]));
  EXPECT_TRUE(values[3].isNone());

  list.push_back(int64_t(1));
  EXPECT_EQ(errorOf(bindArguments(signature, types,
                                  {{list, dict, tuple({at::ones({1}), 3}), c10::IValue()}, {}}))
                .message,
            "argument xs: expected List[Tensor], got a list of 2");
}

TEST(Compare, BitForBit) {
  at::Tensor nan = at::full({2}, std::numeric_limits<double>::quiet_NaN());
  EXPECT_TRUE(compare(nan, nan.clone(), 0.0, 0.0).equal);
  EXPECT_FALSE(compare(at::zeros({1}), -at::zeros({1}), 0.0, 0.0).equal);
  EXPECT_TRUE(compare(at::zeros({1}), -at::zeros({1}), {}, {}).equal);
  EXPECT_FALSE(compare(at::ones({1}), at::ones({1}).add(1e-7), 0.0, 0.0).equal);
}

TEST(Compare, DefaultsFollowTheDtype) {
  auto near = [](at::ScalarType type, double relative) {
    at::Tensor one = at::ones({3}, at::kDouble);
    return compare(one.to(type), one.mul(1 + relative).to(type), {}, {}).equal;
  };
  EXPECT_TRUE(near(at::kFloat, 8e-6));
  EXPECT_FALSE(near(at::kFloat, 2e-5));
  EXPECT_TRUE(near(at::kDouble, 1e-7));
  EXPECT_FALSE(near(at::kDouble, 1e-6));
  EXPECT_TRUE(near(at::kBFloat16, 1e-2));
  EXPECT_FALSE(near(at::kHalf, 1e-2));
  EXPECT_FALSE(compare(at::ones({1}, at::kLong), at::full({1}, 2, at::kLong), {}, {}).equal);
  EXPECT_TRUE(compare(at::ones({1}, at::kLong), at::full({1}, 2, at::kLong), {}, 1.0).equal);
}

TEST(Compare, NamesTheFirstDifference) {
  at::Tensor left = at::zeros({1, 4}), right = at::zeros({1, 4});
  left.fill_(0.5);
  right.fill_(0.5);
  right[0][3] = 0.25;
  c10::Dict<std::string, at::Tensor> first, second;
  first.insert("logits", left);
  second.insert("logits", right);
  Comparison result = compare(tuple({1, first}), tuple({1, second}), {}, {});
  EXPECT_EQ(result.firstDifference, "output 1.logits[0,3]: expected 0.5, got 0.25");
  EXPECT_DOUBLE_EQ(result.maxAbs, 0.25);
  EXPECT_DOUBLE_EQ(result.maxRel, 0.5);

  EXPECT_EQ(compare(at::ones({2}), at::ones({3}), {}, {}).firstDifference,
            "output: expected size [2], got [3]");
  EXPECT_EQ(compare(at::ones({2}), at::ones({2}, at::kDouble), {}, {}).firstDifference,
            "output: expected float32, got float64");
  EXPECT_EQ(compare(tuple({1, 2}), tuple({1}), {}, {}).firstDifference,
            "output: expected 2 elements, got 1");
  EXPECT_EQ(compare("a", "b", {}, {}).firstDifference, "output: expected a, got b");
  EXPECT_FALSE(compare(at::ones({1}), c10::IValue(), {}, {}).equal);
  EXPECT_TRUE(compare(tuple({1, 2}), c10::List<int64_t>({1, 2}), {}, {}).equal);
}
