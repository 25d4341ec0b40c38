#include "ir/support/FileKind.h"

#include "ir/support/Error.h"
#include "ir/support/Llvm.h"
#include "ir/support/PickleKind.h"
#include "ir/support/ZipEntries.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"

#include <optional>

namespace pipec {

namespace {

const std::string kSaveModel =
    "save the PyTorch model itself: torch.jit.save(torch.jit.script(model), 'model.pt'), or "
    "torch.jit.trace(model, inputs)";
constexpr const char *kArtifact = "an artifact of pipe-compile";
const std::string kSaveValues = "save the arguments of forward: torch.save((x,), 'inputs.pt')";
const std::string kLoadWeights = " into the model that they belong to, then save that: "
                                 "torch.jit.save(torch.jit.script(model), 'model.pt')";

/// Files with a characteristic beginning.
struct Mark {
  size_t at;
  llvm::StringLiteral bytes;
  const char *what;
  const char *asModel, *asValues; // null: the text for every file
};

constexpr Mark kMarks[] = {
    {0, "\x93NUMPY", "a NumPy array (.npy)", nullptr,
     "torch.save(torch.from_numpy(numpy.load(FILE)), 'inputs.pt')"},
    {0, "\x89HDF\r\n\x1a\n", "an HDF5 file, as Keras writes models", nullptr, nullptr},
    {4, "TFL3", "a TensorFlow Lite model", nullptr, nullptr},
    {4, "ET12", "an ExecuTorch program (.pte)", nullptr, nullptr},
    {0, "GGUF", "a GGUF model", nullptr, nullptr},
    {0,
     "\x7f"
     "ELF",
     "a library or program", "custom operators are given as --load-library LIB.so", nullptr},
    {0, "\x1f\x8b", "a file compressed by gzip", "unpack it first", "unpack it first"},
    {0, "\x28\xb5\x2f\xfd", "a file compressed by zstd", "unpack it first", "unpack it first"},
    {0,
     "\xfd"
     "7zXZ",
     "a file compressed by xz", "unpack it first", "unpack it first"},
    {0, "BZh", "a file compressed by bzip2", "unpack it first", "unpack it first"},
    {257, "ustar", "a tar archive", "unpack it first", "unpack it first"},
    {0, "version https://git-lfs", "a pointer of Git LFS and not the file itself",
     "fetch it: git lfs pull", "fetch it: git lfs pull"},
    {0, "\x89PNG", "a picture", nullptr, nullptr},
    {0, "\xff\xd8\xff", "a picture", nullptr, nullptr},
    {0, "PAR1", "a Parquet table", nullptr, nullptr},
    {0, "ARROW1", "an Arrow file", nullptr, nullptr},
};

FileKind kind(std::string what, std::string asModel = "", std::string asValues = "") {
  return {std::move(what), asModel.empty() ? kSaveModel : std::move(asModel),
          asValues.empty() ? kSaveValues : std::move(asValues)};
}

/// The header is JSON after its length.
bool isSafetensors(llvm::StringRef bytes) {
  if (bytes.size() < 10)
    return false;
  const uint64_t header = llvm::support::endian::read64le(bytes.data());
  return header >= 2 && header <= bytes.size() - 8 && bytes[8] == '{' &&
         endsWith(bytes.substr(8, header).rtrim(' '), "}");
}

/// Takes a protobuf number from the start of the text; nullopt if the text ends within it.
std::optional<uint64_t> takeVarint(llvm::StringRef &text) {
  uint64_t number = 0;
  for (unsigned shift = 0; shift < 64 && !text.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(text.front());
    text = text.drop_front();
    number |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (!(byte & 0x80))
      return number;
  }
  return std::nullopt;
}

/// The field numbers of a message with their wire types; none if the bytes are not one complete
/// message.
std::vector<std::pair<uint64_t, uint64_t>> protobufFields(llvm::StringRef text) {
  std::vector<std::pair<uint64_t, uint64_t>> fields;
  while (!text.empty()) {
    const std::optional<uint64_t> tag = takeVarint(text);
    if (!tag || *tag >> 3 == 0 || *tag >> 3 > 100'000)
      return {};
    fields.emplace_back(*tag >> 3, *tag & 7);
    std::optional<uint64_t> bytes;
    switch (*tag & 7) {
    case 0:
      bytes = takeVarint(text) ? std::optional<uint64_t>(0) : std::nullopt;
      break;
    case 1:
      bytes = 8;
      break;
    case 2:
      bytes = takeVarint(text);
      break;
    case 5:
      bytes = 4;
      break;
    }
    if (!bytes || *bytes > text.size())
      return {};
    text = text.drop_front(*bytes);
  }
  return fields;
}

/// Protobuf formats have no characteristic beginning; their fields identify them.
FileKind kindOfMessage(llvm::StringRef bytes) {
  const auto fields = protobufFields(bytes);
  const auto has = [&](uint64_t number, uint64_t type) {
    return llvm::is_contained(fields, std::pair(number, type));
  };
  if (has(7, 2) && has(8, 2) && (has(1, 0) || has(2, 2))) // graph, opset_import; ir_version
    return kind("an ONNX model", "pipec reads TorchScript: " + kSaveModel);
  if (fields.size() == 2 && fields[0] == std::pair<uint64_t, uint64_t>(1, 0) && has(2, 2))
    return kind("a TensorFlow SavedModel");
  return {};
}

FileKind kindOfZip(llvm::StringRef bytes) {
  const std::vector<ZipEntry> entries = zipEntries(bytes);
  const auto holds = [&](llvm::StringRef name) {
    return llvm::any_of(entries, [&](const ZipEntry &entry) {
      return entry.name == name || entry.name.split('/').second == name;
    });
  };
  if (entries.empty())
    return {};
  if (holds("data.pkl") && holds("constants.pkl"))
    return {"a TorchScript model", "", "save the input values: torch.save((x,), 'inputs.pt')"};
  if (holds("archive_format") || holds("models/model.json") ||
      holds("serialized_exported_program.json"))
    return kind("an exported program (.pt2)",
                "trace it: torch.jit.trace(torch.export.load(FILE).module(), inputs)"
                ".save('model.pt')");
  for (const ZipEntry &entry : entries)
    if (entry.name.split('/').second == "data.pkl")
      return kindOfTorchSave(entry.bytes);
  if (holds("model.json"))
    return kind("a TorchScript model in the format of PyTorch before 1.1",
                "load and save it once with a newer PyTorch: torch.jit.load(FILE).save(FILE)");
  if (llvm::all_of(entries, [](const ZipEntry &entry) { return endsWith(entry.name, ".npy"); }))
    return kind("NumPy arrays (.npz)", "",
                "torch.save({name: torch.from_numpy(array) for name, array in "
                "numpy.load(FILE).items()}, 'inputs.pt')");
  if (holds("model.weights.h5"))
    return kind("a Keras model");
  if (holds("MAR-INF/MANIFEST.json"))
    return kind("an archive of TorchServe (.mar)", "unpack it; the model is inside");
  return kind("a zip archive of something else, with " + entries.front().name.take_front(80).str());
}

FileKind kindOfText(llvm::StringRef bytes) {
  const llvm::StringRef text = bytes.ltrim();
  const bool isText = llvm::all_of(bytes.take_front(1024), [](unsigned char c) {
    return c >= 0x20 || c == '\n' || c == '\t' || c == '\r';
  });
  if (!isText)
    return {};
  auto hasPrefix = [&](llvm::StringRef prefix) {
    return text.take_front(prefix.size()).equals_insensitive(prefix);
  };
  if (hasPrefix("<!doctype html") || hasPrefix("<html"))
    return kind("an HTML page, as a failed download leaves it", "download it again",
                "download it again");
  if (startsWith(text, "<?xml"))
    return kind("an XML file");
  if (startsWith(text, "{") || startsWith(text, "["))
    return kind("JSON text");
  return kind("text");
}

} // namespace

FileKind kindOfFile(llvm::StringRef bytes) {
  for (const Mark &mark : kMarks)
    if (startsWith(bytes.substr(mark.at), mark.bytes))
      return kind(mark.what, mark.asModel ? mark.asModel : "", mark.asValues ? mark.asValues : "");
  if (startsWith(bytes, "PK\x03\x04"))
    return kindOfZip(bytes);
  if (isSafetensors(bytes))
    return kind("weights in the safetensors format",
                "load them (safetensors.torch.load_file)" + kLoadWeights,
                "torch.save(safetensors.torch.load_file(FILE), 'inputs.pt')");
  if (FileKind pickled = kindOfPickle(bytes); !pickled.what.empty())
    return pickled;
  if (FileKind message = kindOfMessage(bytes); !message.what.empty())
    return message;
  return bytes.empty() ? FileKind() : kindOfText(bytes);
}

/// By the names of its files.
static FileKind kindOfDirectory(const std::string &path) {
  const auto has = [&](const char *name) { return llvm::sys::fs::exists(path + "/" + name); };
  const auto hasEnding = [&](llvm::StringRef ending) {
    std::error_code error;
    for (llvm::sys::fs::directory_iterator at(path, error), end; !error && at != end;
         at.increment(error))
      if (endsWith(at->path(), ending))
        return true;
    return false;
  };
  if (has("MANIFEST") && has("plan.json"))
    return {kArtifact, "pass the .pt file that it was compiled from", kSaveValues};
  if (has("checkpoint.json"))
    return kind("a checkpoint of a training",
                "put its weights into the model that was trained: pipe-merge --checkpoint DIR "
                "--into MODEL.pt -o OUT.pt");
  if (has("saved_model.pb") || has("saved_model.pbtxt"))
    return kind("a TensorFlow SavedModel");
  if (has(".metadata") && hasEnding(".distcp"))
    return kind("a distributed checkpoint", "load the weights" + kLoadWeights);
  if (has("data.pkl") && has("constants.pkl"))
    return kind("an unpacked TorchScript archive", "pass the .pt file that it was unpacked from");
  if (has("config.json") || has("model.safetensors.index.json") || hasEnding(".safetensors"))
    return kind("a directory of a checkpoint, weights and configuration",
                "load the model (from_pretrained), then save it: torch.jit.save(torch.jit.script("
                "model), 'model.pt'), or torch.jit.trace(model, inputs)");
  return {};
}

llvm::Error notWanted(const std::string &path, Wanted wanted, llvm::StringRef bytes,
                      const std::string &otherwise) {
  const FileKind found = kindOfFile(bytes);
  const bool model = wanted == Wanted::Model;
  const std::string help = model ? found.asModel : found.asValues;
  // The file has the wanted kind; the caller found it damaged.
  if (found.what.empty() || help.empty())
    return makeError(ExitCode::Unreadable, path + ": " + otherwise,
                     model ? kSaveModel : kSaveValues);
  return makeError(ExitCode::Unreadable,
                   fmt::format("{}: expected {}, got {}", path,
                               model ? "a TorchScript model" : "values that torch.save wrote",
                               found.what),
                   help);
}

llvm::Error refuseDirectory(const std::string &path, Wanted wanted) {
  if (!llvm::sys::fs::is_directory(path))
    return llvm::Error::success();
  const FileKind found = kindOfDirectory(path);
  if (found.what.empty())
    return makeError(ExitCode::Unreadable, path + ": expected a file, got a directory");
  const bool model = wanted == Wanted::Model;
  return makeError(ExitCode::Unreadable,
                   fmt::format("{}: expected {}, got {}", path,
                               model ? "a TorchScript model" : "values that torch.save wrote",
                               found.what),
                   model ? found.asModel : found.asValues);
}

llvm::Error refuseOtherThanArtifact(const std::string &path) {
  if (llvm::sys::fs::is_directory(path)) {
    const FileKind found = kindOfDirectory(path);
    if (found.what.empty() || found.what == kArtifact)
      return llvm::Error::success();
    return makeError(ExitCode::Unreadable,
                     fmt::format("{}: expected an artifact, got {}", path, found.what),
                     found.asModel);
  }
  if (!llvm::sys::fs::is_regular_file(path))
    return llvm::Error::success();
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/false,
                                            /*RequiresNullTerminator=*/false);
  const FileKind found = buffer ? kindOfFile((*buffer)->getBuffer()) : FileKind();
  const bool isModel = !found.what.empty() && found.asModel.empty();
  return makeError(ExitCode::Usage,
                   fmt::format("{}: expected an artifact (a directory), got {}", path,
                               found.what.empty() ? "a file" : found.what),
                   isModel ? "compile it first: pipe-compile " + path +
                                 " --stages N --inputs FILE, and pass the directory that it writes"
                           : "pass the directory that pipe-compile wrote");
}

} // namespace pipec
