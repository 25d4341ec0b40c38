// An edited plan, with MANIFEST made true again: whatever does not fit the stage files
// or the rest of the plan is refused before anything runs, by the check and by the pipeline.
#include "tests/runtime/PlanEdits.h"

#include "compiler/Compiler.h"
#include "ir/artifact/ArtifactCheck.h"
#include "ir/artifact/Manifest.h"
#include "ir/support/Json.h"
#include "ir/support/Sha256.h"
#include "ir/values/MapTensors.h"
#include "ir/values/ValueFiles.h"
#include "llvm/Support/Regex.h"
#include "runtime/Pipeline.h"
#include "tests/runtime/SmallPipeline.h"
#include "tests/runtime/SmallTraining.h"
#include "tests/support/Matchers.h"
#include "tests/support/TestModels.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Dict.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>

namespace pipec {
namespace {

namespace fs = std::filesystem;

std::string get(const std::string &file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void put(const std::string &file, const std::string &text) {
  std::ofstream(file, std::ios::binary) << text;
}

/// What neither the stage files nor the rest of the plan can tell. Such an edit may pass, and then
/// every number is as before.
struct Free {
  const char *path; // a regular expression over the whole path
  const char *why;
  bool usage = false; // given inputs may then be refused (exit 2), as for inputs that do not fit
};
const Free kFree[] = {
    {"format_version[.]minor", "a newer minor version that has known keys only"},
    {"mode", "an inference refuses an artifact of a training", true},
    {"signature[.]method", "said in messages only: a stage has methods of its own"},
    {"stages.*[.](first_module|last_module|nodes|cost_flops)", "said in reports only"},
    {".*tensor[.](strides.*|requires_grad)", "what the example runs showed; nothing reads it"},
    {"(channels|signature[.]leaves).*[.](tensor|tensor[.](dtype|shape).*)",
     "what the example runs showed, where no other key says it too; nothing reads it"},
    {"signature[.]inputs.*[.](tensor|tensor[.](dtype|shape).*)",
     "what the example runs showed, where no other key says it too", true},
    {"signature[.]inputs.*[.]written", "true only costs a copy"},
    {"signature[.]inputs.*[.]default", "only the model's source has it; not asked for here"},
    {"signature[.]outputs.*", "names that only the model's source has"},
    {"obligations.*|normalisation[.]forms.*", "what the compile proved with the source at hand"},
    {"stages.*[.]outputs.*[.]name|channels.*[.]name", "a label, where nothing else has the name"},
};

/// The same for the parts of a training plan that say what is trained, and how.
const Free kFreeOfTrainings[] = {
    {"training[.](costs.*|samples)",
     "estimates: schedules are planned with them, and reports say them"},
    {"training[.]why_whole.*", "a stage that could split its backward runs it whole"},
    {"training[.]recompute.*", "costs time and saves memory"},
    {"training[.]parameters[[][0-9]+[]]", "the order of gradients in reports and of their norm"},
    {"channels.*[.]requires_grad", "the run refuses a gradient that the plan does not know", true},
};

/// What is computed from the artifact in a directory.
using Run = std::function<llvm::Expected<c10::IValue>(const std::string &directory)>;

std::vector<at::Tensor> tensorsOf(const c10::IValue &value) {
  std::vector<at::Tensor> tensors;
  forEachTensor(value, [&](const at::Tensor &tensor) { tensors.push_back(tensor); });
  return tensors;
}

/// An artifact in a directory of its own, and what it computes.
class Edited {
public:
  Edited(const std::string &from, Run run)
      : directory_(scratchPath("edited.pipe")), run_(std::move(run)) {
    fs::copy(from, directory_, fs::copy_options::recursive);
    manifest_ = take(manifestFromText(get(directory_ + "/MANIFEST")));
    plan_ = take(parseJson(get(directory_ + "/plan.json"), JsonLimits()));
    EXPECT_EQ(checkCode(), ExitCode::Success);
    expected_ = take(run_(directory_));
  }

  const llvm::json::Value &plan() const { return plan_; }

  void write(const std::string &text) {
    put(directory_ + "/plan.json", text);
    Manifest manifest = manifest_;
    manifest["plan.json"] = sha256Hex(text);
    put(directory_ + "/MANIFEST", toString(manifest));
  }

  ExitCode checkCode() {
    ArtifactCheck check = checkArtifact(directory_);
    message = check.findings.empty() ? "" : check.findings.front().message;
    return check.findings.empty() ? ExitCode::Success : check.findings.front().exitCode;
  }

  /// Success also means: the same numbers.
  ExitCode runCode() {
    llvm::Expected<c10::IValue> outputs = run_(directory_);
    if (!outputs) {
      ErrorText text = describe(outputs.takeError());
      message = text.message;
      return text.code;
    }
    std::vector<at::Tensor> was = tensorsOf(expected_), is = tensorsOf(*outputs);
    bool same = std::equal(was.begin(), was.end(), is.begin(), is.end(), sameBits);
    message = same ? "" : "other numbers";
    return same ? ExitCode::Success : ExitCode::Mismatch;
  }

  std::string message; // of the last code

private:
  std::string directory_;
  Run run_;
  Manifest manifest_;
  llvm::json::Value plan_ = nullptr;
  c10::IValue expected_;
};

Run anInferenceOf(std::vector<c10::IValue> inputs) {
  return [inputs = std::move(inputs)](const std::string &directory) -> llvm::Expected<c10::IValue> {
    PipelineOptions options;
    options.threads = 1;
    llvm::Expected<Pipeline> pipeline = Pipeline::load(directory, options);
    if (!pipeline)
      return pipeline.takeError();
    return pipeline->infer(inputs);
  };
}

/// One step; gradients and parameters by name.
llvm::Expected<c10::IValue> stepOf(const std::string &directory) {
  Training how;
  how.optimizer = "sgd,lr=0.1";
  PipelineOptions options = runTrained(how);
  options.training->clipNorm = 0; // the last bits of the norm hang on the order of parameters
  llvm::Expected<Pipeline> pipeline = Pipeline::load(directory, options);
  if (!pipeline)
    return pipeline.takeError();
  if (llvm::Expected<TrainedStep> done = pipeline->step(trainingBatch()); !done)
    return done.takeError();
  std::map<std::string, c10::IValue> byName;
  for (const auto &[what, tree] : {std::pair("gradient of ", pipeline->gradients()),
                                   std::pair("value of ", pipeline->state())})
    for (const auto &entry : tree.ivalue().toGenericDict())
      byName.emplace(what + entry.key().toStringRef(), entry.value());
  std::vector<c10::IValue> values;
  for (const auto &[name, value] : byName)
    values.push_back(value);
  return c10::ivalue::Tuple::create(std::move(values));
}

/// Every edit is tried, but with the thread sanitizer, where each loads the stages for a tenth of a
/// second: there one of eight. What one edit finds does not hang on threads.
#ifdef __SANITIZE_THREAD__
constexpr size_t kStep = 8;
#else
constexpr size_t kStep = 1;
#endif

/// The exceptions of a test, and which edits it makes: paths that a regular expression fits.
struct Edits {
  llvm::ArrayRef<Free> free;
  const char *paths = ".*";
};

/// Tries them on one artifact; notes in `used` which exceptions were needed.
void tryEdits(Edited artifact, const Edits &edits, std::set<const Free *> &used) {
  size_t found = 0;
  const llvm::Regex wanted(std::string("^(") + edits.paths + ")$");
  for (const JsonEdit &edit : everyEdit(artifact.plan())) {
    if (!wanted.match(edit.path) || found++ % kStep)
      continue;
    artifact.write(edit.document);
    auto judge = [&](const char *who, ExitCode code) {
      if (code == ExitCode::BadArtifact || code == ExitCode::Version)
        return;
      auto free = llvm::find_if(edits.free, [&](const Free &it) {
        return (code == ExitCode::Success || (it.usage && code == ExitCode::Usage)) &&
               llvm::Regex(std::string("^(") + it.path + ")$").match(edit.path);
      });
      if (free != edits.free.end())
        used.insert(free);
      else
        ADD_FAILURE() << who << ": " << edit.path << " " << edit.what << ": exit code "
                      << static_cast<int>(code) << " " << artifact.message;
    };
    judge("check", artifact.checkCode());
    judge("run", artifact.runCode());
  }
  EXPECT_GT(found, 200u);
}

Edited kept(const std::string &name) {
  std::string folder = std::string(std::getenv("PIPEC_SOURCE")) + "/tests/artifacts/" + name;
  Arguments given = take(readArguments(folder + "/inputs.pt"));
  std::vector<c10::IValue> inputs = given.positional;
  if (name == "v1-tied")
    inputs.push_back(3); // also where the plan has a default
  return Edited(folder + "/model.pipe", anInferenceOf(std::move(inputs)));
}

/// A tie that is sent, a skip, state that is written and state that is assigned, random operators,
/// a size that is computed again, results of one type from one stage.
std::string compiled() {
  test::SavedModule model{
      .name = "Edited",
      .parameters = {{"w", (at::arange(64, at::kFloat).view({8, 8}) / 37).sin().requires_grad_()},
                     {"bias", (at::arange(8, at::kFloat) / 5).requires_grad_()}},
      .buffers = {{"steps", at::zeros({1})}, {"last", at::zeros({8})}},
      .source = R"(
def forward(self, x, y, scale: int = 3):
    if x.dim() == 3:
        x = x.sum(2)
    e = torch.matmul(x, self.w.t())
    n = e.size(0)
    self.steps.add_(1)
    h = torch.dropout(torch.relu(e + self.bias) * scale, 0.5, True)
    self.last = h.detach().sum(0)
    a, b = torch.tanh(h), torch.sigmoid(h)
    c = torch.dropout(a + e, 0.25, True).view(n, 8)
    d = torch.matmul(c * y, self.w)
    return {"a": a, "b": b, "c": c, "d": d}
)"};
  std::string file = scratchPath("model.pt"), directory = scratchPath("model.pipe");
  put(file, bytesOf(model));
  CompileOptions options;
  options.cuts.push_back(CutPredicate(
      [](const NodeView &node) { return node.op == "aten::relu" || node.op == "aten::view"; }));
  options.inputs = "f32[6,8],f32[6,8]";
  options.tied = {{"", Tie::Mode::Transmit}};
  EXPECT_TRUE(succeeded(take(Compiler::load(file)).compile(options, directory)));
  return directory;
}

TEST(PlanEdits, AreFoundWhereAnythingElseKnows) {
  at::Tensor x = at::arange(48, at::kFloat).view({6, 8}) / 11, y = x.cos();
  std::set<const Free *> used;
  tryEdits(kept("v1-mlp"), {kFree}, used);
  tryEdits(kept("v1-tied"), {kFree}, used);
  tryEdits(Edited(compiled(), anInferenceOf({x, y, 3})), {kFree}, used);
  for (const Free &it : kFree)
    EXPECT_TRUE(kStep > 1 || used.count(&it)) << it.path << ": no edit needs this exception";
}

/// A gradient that is left out or summed wrongly would train another model without a word.
TEST(PlanEdits, OfATrainingAreFound) {
  std::set<const Free *> used;
  for (Tie::Mode mode : {Tie::Mode::Transmit, Tie::Mode::Replicate}) {
    Training how;
    how.schedule = "1f1b";
    how.tied = mode;
    if (mode == Tie::Mode::Replicate)
      how.recompute = RecomputeChoice::Always;
    tryEdits(Edited(compileTrained(how), stepOf),
             {kFreeOfTrainings, "(training|ties).*|channels.*[.](requires_grad|skip)"}, used);
  }
  for (const Free &it : kFreeOfTrainings)
    EXPECT_TRUE(kStep > 1 || used.count(&it)) << it.path << ": no edit needs this exception";
}

} // namespace
} // namespace pipec
