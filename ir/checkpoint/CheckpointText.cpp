#include "ir/checkpoint/CheckpointText.h"

#include "ir/artifact/Manifest.h"
#include "ir/plan/PlanNames.h"
#include "ir/support/Error.h"
#include "ir/support/Json.h"
#include "ir/support/JsonReader.h"
#include "ir/support/Try.h"
#include "ir/support/VersionText.h"

#include <set>

namespace pipec {

namespace {

using llvm::json::Array;
using llvm::json::Object;
using llvm::json::Value;

Value entryValue(const CheckpointEntry &entry) {
  return Object{{"name", entry.name},
                {"other_names", Array(entry.otherNames)},
                {"kind", toString(entry.kind)},
                {"used", entry.used},
                {"dtype", entry.dtype},
                {"shape", Array(entry.shape)},
                {"optimizer", Array(entry.optimizer)}};
}

Value fileValue(const CheckpointFile &file) {
  Array entries;
  for (const CheckpointEntry &entry : file.entries)
    entries.push_back(entryValue(entry));
  return Object{{"file", file.name}, {"entries", std::move(entries)}};
}

Value textsValue(const std::map<std::string, std::string> &texts) {
  Object object;
  for (const auto &[name, text] : texts)
    object[name] = text;
  return object;
}

std::map<std::string, std::string> textsFrom(JsonObject &object, llvm::StringRef key) {
  std::map<std::string, std::string> texts;
  const Value *value = object.value(key);
  if (!value)
    return texts;
  const Object *found = value->getAsObject();
  if (!found)
    object.fail(key, "expected an object of texts");
  else
    for (const auto &[name, each] : *found) {
      if (auto text = each.getAsString())
        texts[llvm::StringRef(name).str()] = text->str();
      else
        object.fail(key, "expected a text for " + jsonText(llvm::StringRef(name)));
    }
  return texts;
}

CheckpointEntry entryFrom(JsonObject &object) {
  CheckpointEntry entry;
  entry.name = object.string("name");
  entry.otherNames = object.strings("other_names");
  entry.kind = object.parsed<AttributeKind>("kind", parseAttributeKind);
  entry.used = object.boolean("used");
  entry.dtype = object.string("dtype");
  entry.shape = object.integers("shape");
  entry.optimizer = object.strings("optimizer");
  const bool isTensor =
      entry.kind == AttributeKind::Parameter || entry.kind == AttributeKind::Buffer;
  if (!isTensor && entry.kind != AttributeKind::Value)
    object.fail("kind", "expected parameter, buffer or value, got " + toString(entry.kind).str());
  if (entry.dtype.empty() == isTensor)
    object.fail("dtype", isTensor ? "expected the dtype of a tensor, got none"
                                  : "expected none for a value, got " + jsonText(entry.dtype));
  if (entry.kind != AttributeKind::Parameter && !entry.optimizer.empty())
    object.fail("optimizer", "expected none except for a parameter");
  if (std::set<std::string>(entry.optimizer.begin(), entry.optimizer.end()).size() !=
          entry.optimizer.size() ||
      !llvm::is_sorted(entry.optimizer))
    object.fail("optimizer", "expected ascending names");
  return entry;
}

CheckpointFile fileFrom(JsonObject &object) {
  CheckpointFile file;
  file.name = object.string("file");
  if (!isArtifactFileName(file.name) || file.name == kCheckpointTextName)
    object.fail("file", "expected the name of a file without a path, got " + jsonText(file.name));
  object.objects("entries", [&](JsonObject &entry) { file.entries.push_back(entryFrom(entry)); });
  return file;
}

/// The version comes first, because this reader cannot judge the keys of a newer format.
llvm::Error readVersion(JsonObject &object, CheckpointText &checkpoint) {
  JsonObject version = object.object("format_version");
  checkpoint.major = version.integer("major");
  checkpoint.minor = version.integer("minor");
  checkpoint.requiredFeatures = object.strings("required_features");
  if (!object.reading().error.empty())
    return llvm::Error::success(); // reported by the caller
  if (checkpoint.major != CheckpointText::kMajor)
    return makeError(ExitCode::Version,
                     fmt::format("{}: format version: expected {}.x, got {}.{}",
                                 kCheckpointTextName, CheckpointText::kMajor, checkpoint.major,
                                 checkpoint.minor),
                     "use the version of pipec that wrote the checkpoint");
  if (!checkpoint.requiredFeatures.empty())
    return makeError(ExitCode::Version,
                     fmt::format("{}: needs feature \"{}\" of format {}.{}: this pipec reads "
                                 "format {}.{} without it",
                                 kCheckpointTextName, checkpoint.requiredFeatures.front(),
                                 checkpoint.major, checkpoint.minor, CheckpointText::kMajor,
                                 CheckpointText::kMinor),
                     "use the version of pipec that wrote the checkpoint");
  object.reading().unknownKeysAreErrors = checkpoint.minor <= CheckpointText::kMinor;
  version.finish();
  return llvm::Error::success();
}

/// Each name of the model is in one entry.
void checkNames(JsonObject &object, const CheckpointText &checkpoint) {
  std::set<std::string> files, names;
  for (const CheckpointFile &file : checkpoint.files) {
    if (!files.insert(file.name).second)
      object.fail("stages", "the file " + jsonText(file.name) + " is listed twice");
    for (const CheckpointEntry &entry : file.entries) {
      bool isNew = names.insert(entry.name).second;
      for (const std::string &other : entry.otherNames)
        isNew = names.insert(other).second && isNew;
      if (!isNew)
        object.fail("stages", "a name of " + jsonText(entry.name) + " is listed twice");
    }
  }
}

void readBody(JsonObject &object, CheckpointText &checkpoint) {
  checkpoint.toolVersion = versionFrom(object, "tool_version");
  checkpoint.torchVersion = versionFrom(object, "torch_version");
  checkpoint.step = object.integer("step");
  const std::string seed = object.string("seed");
  if (llvm::StringRef(seed).getAsInteger(10, checkpoint.seed) ||
      std::to_string(checkpoint.seed) != seed)
    object.fail("seed", "expected a number of 64 bits as text, got " + jsonText(seed));
  checkpoint.skippedInARow = object.integer("skipped_in_a_row");
  checkpoint.settings = textsFrom(object, "settings");
  checkpoint.program = textsFrom(object, "program");
  object.objects("stages", [&](JsonObject &file) { checkpoint.files.push_back(fileFrom(file)); });
  checkNames(object, checkpoint);
  object.finish();
}

} // namespace

std::string toJson(const CheckpointText &checkpoint) {
  Array files;
  for (const CheckpointFile &file : checkpoint.files)
    files.push_back(fileValue(file));
  return printJson(
      Object{{"format_version", Object{{"major", checkpoint.major}, {"minor", checkpoint.minor}}},
             {"required_features", Array(checkpoint.requiredFeatures)},
             {"tool_version", checkpoint.toolVersion},
             {"torch_version", checkpoint.torchVersion},
             {"step", checkpoint.step},
             {"seed", std::to_string(checkpoint.seed)},
             {"skipped_in_a_row", checkpoint.skippedInARow},
             {"settings", textsValue(checkpoint.settings)},
             {"program", textsValue(checkpoint.program)},
             {"stages", std::move(files)}});
}

llvm::Expected<CheckpointText> checkpointFromJson(llvm::StringRef text,
                                                  std::vector<std::string> &warnings) {
  JsonLimits limits;
  limits.what = kCheckpointTextName;
  Value document = TRY(parseJson(text, limits));
  JsonReading reading;
  JsonObject object(reading, &document, "");
  CheckpointText checkpoint;
  TRY(readVersion(object, checkpoint));
  if (reading.error.empty())
    readBody(object, checkpoint);
  if (!reading.error.empty())
    return failf(ExitCode::BadArtifact, "{}: {}", kCheckpointTextName, reading.error);
  for (const std::string &warning : reading.warnings)
    warnings.push_back(std::string(kCheckpointTextName) + ": " + warning);
  return checkpoint;
}

} // namespace pipec
