#include "ir/support/PickleKind.h"

#include "ir/support/Llvm.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>

namespace pipec {

namespace {

const std::string kSave = "torch.jit.save(torch.jit.script(model), 'model.pt')";
const std::string kTuple = "save the arguments of forward: torch.save((x,), 'inputs.pt')";

/// The first class or function that a pickle names, as "collections.OrderedDict": the class of the
/// whole, if it is an object. Protocols 2 and 3 write it as "cmodule\nname\n".
std::string firstGlobal(llvm::StringRef pickle) {
  const auto isName = [](llvm::StringRef text) {
    return !text.empty() && text.size() < 200 &&
           llvm::all_of(text, [](char c) { return llvm::isAlnum(c) || c == '_' || c == '.'; });
  };
  for (size_t at = pickle.find('c'); at != llvm::StringRef::npos; at = pickle.find('c', at + 1)) {
    const auto [module, rest] = pickle.substr(at + 1).split('\n');
    const llvm::StringRef name = rest.split('\n').first;
    if (isName(module) && isName(name))
      return module.str() + "." + name.str();
  }
  return "";
}

/// A pickle without the bytes that say its protocol.
llvm::StringRef behindProtocol(llvm::StringRef pickle) {
  return pickle.size() >= 2 && pickle[0] == '\x80' ? pickle.drop_front(2) : pickle;
}

/// Whether the pickle holds a text as protocol 2 writes a dict's key: its length, then the text.
bool holdsKey(llvm::StringRef pickle, llvm::StringRef key) {
  return pickle.contains(std::string("X") + static_cast<char>(key.size()) + std::string(3, '\0') +
                         key.str());
}

/// The first key whose value is an OrderedDict, as a state dict is, in a dict that begins the
/// pickle. Protocol 2 writes the key, its number in the memo, and then the class. Empty: none.
std::string keyOfStateDict(llvm::StringRef pickle) {
  constexpr llvm::StringLiteral kClass("ccollections\nOrderedDict\n");
  llvm::StringRef before = pickle.take_front(pickle.find(kClass));
  if (before.size() == pickle.size())
    return "";
  if (before.size() >= 2 && before[before.size() - 2] == 'q')
    before = before.drop_back(2);
  else if (before.size() >= 5 && before[before.size() - 5] == 'r')
    before = before.drop_back(5);
  for (size_t length = 1; length < 100 && length + 5 <= before.size(); ++length) {
    const llvm::StringRef key = before.take_back(length);
    if (holdsKey(before.take_back(length + 5), key) &&
        llvm::all_of(key, [](char c) { return llvm::isAlnum(c) || c == '_' || c == '.'; }))
      return key.str();
  }
  return "";
}

FileKind stateDict(const std::string &how) {
  return {"a state dict, weights without the model",
          "load it into its model, model.load_state_dict(" + how + "), then save that: " + kSave,
          kTuple + "; weights, or a result that is an OrderedDict, as a plain dict: "
                   "torch.save(dict(value), FILE)"};
}

/// Whether the pickle is what state_dict() of an optimizer gives: a dict of 'state' and
/// 'param_groups', with no state dict of a model in it.
bool isOptimizerState(llvm::StringRef pickle) {
  llvm::StringRef body = behindProtocol(pickle);
  if (!body.consume_front("}"))
    return false;
  if (startsWith(body, "q") || startsWith(body, "r")) // keeps the dict for later use
    body = body.drop_front(std::min<size_t>(body.size(), body[0] == 'q' ? 2 : 5));
  constexpr llvm::StringLiteral kOfModels[] = {"model", "model_state_dict", "state_dict",
                                               "optimizer"};
  const bool stateFirst = body.consume_front("(") && holdsKey(body.take_front(10), "state");
  return stateFirst && holdsKey(pickle, "param_groups") && keyOfStateDict(pickle).empty() &&
         llvm::none_of(kOfModels, [&](llvm::StringRef key) { return holdsKey(pickle, key); });
}

FileKind kindOfObject(llvm::StringRef pickle, const std::string &how) {
  const llvm::StringRef body = behindProtocol(pickle);
  const std::string global = firstGlobal(body.take_front(1 << 20));
  if (holdsKey(pickle, "_modules") && holdsKey(pickle, "_parameters") && !startsWith(body, "}") &&
      global != "collections.OrderedDict") // the old format has "(" before the class
    return {"a pickled module, an object of class " + global,
            "script it: torch.jit.save(torch.jit.script(" + how + "), 'model.pt')", kTuple};
  if (startsWith(body, "ccollections\nOrderedDict\n"))
    return stateDict(how);
  if (isOptimizerState(pickle))
    return {"the state of an optimizer (optimizer.state_dict()), which holds no model",
            "save the model itself: " + kSave, kTuple};
  if (startsWith(body, "}") &&
      (holdsKey(pickle, "state_dict") || holdsKey(pickle, "model_state_dict") ||
       holdsKey(pickle, "optimizer") || holdsKey(pickle, "param_groups")))
    return {"a checkpoint, a dict with weights in it",
            "load the weights into their model, model.load_state_dict(...), then save that: " +
                kSave,
            kTuple};
  const bool hasWeights = pickle.contains("weight") || pickle.contains("bias");
  if (startsWith(body, "}") && hasWeights)
    if (const std::string key = keyOfStateDict(pickle); !key.empty())
      return {"a training checkpoint that holds a state dict under '" + key + "'",
              "load the weights into their model, model.load_state_dict(" + how + "['" + key +
                  "']), then save that: " + kSave,
              kTuple};
  if (startsWith(body, "}") && (pickle.contains(".weight") || pickle.contains(".bias"))) {
    FileKind kind = stateDict(how);
    kind.asValues.clear(); // a plain dict may be arguments by name
    return kind;
  }
  return {};
}

} // namespace

FileKind kindOfTorchSave(llvm::StringRef pickle) {
  if (FileKind kind = kindOfObject(pickle, "torch.load(FILE, weights_only=False)");
      !kind.what.empty())
    return kind;
  return {"values or weights that torch.save wrote",
          "save the model itself: " + kSave + ", or torch.jit.trace(model, inputs)", ""};
}

FileKind kindOfPickle(llvm::StringRef file) {
  if (file.size() < 3 || file[0] != '\x80' || file[1] < 2 || file[1] > 5)
    return {};
  // The number that torch.save began with, then three pickles about the file.
  constexpr llvm::StringLiteral kLegacy("\x8a\nl\xfc\x9c"
                                        "F\xf9 j\xa8P\x19.");
  if (!startsWith(file.drop_front(2), kLegacy)) {
    if (holdsKey(file.take_front(1 << 20), "_modules"))
      return kindOfObject(file, "pickle.load(open(FILE, 'rb'))");
    return {"a pickle that torch.save did not write",
            "save the model itself: " + kSave + ", or torch.jit.trace(model, inputs)",
            "torch.save(pickle.load(open(FILE, 'rb')), 'inputs.pt'), with tensors in it"};
  }
  llvm::StringRef rest = file;
  for (int skipped = 0; skipped < 3; ++skipped)
    rest = rest.substr(std::min(rest.size(), rest.find(".\x80") + 1));
  FileKind kind = kindOfObject(rest, "torch.load(FILE, weights_only=False)");
  if (kind.what.empty())
    kind = {"values or weights", "save the model itself: " + kSave, ""};
  kind.what += ", in the format of torch.save before PyTorch 1.6";
  kind.asValues = "save them again: torch.save(torch.load(FILE), 'inputs.pt')";
  return kind;
}

} // namespace pipec
