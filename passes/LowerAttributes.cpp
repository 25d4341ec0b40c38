// lower-attributes: removes `self`. Tensors, objects and written values become graph inputs with an
// entry in the table of attributes. All other values become constants, and assignments become state
// outputs.
#include "passes/LowerAttributes.h"

#include "ir/NodeInfo.h"
#include "ir/Refusals.h"
#include "ir/TensorKey.h"
#include "ir/TorchError.h"
#include "ir/support/Try.h"
#include "ir/torchfile/TorchFile.h"
#include "passes/Passes.h"
#include "passes/analysis/MemoryTypes.h"
#include "passes/attributes/LeftoverRefusals.h"
#include "passes/attributes/ModuleEntries.h"
#include "passes/attributes/ObjectValues.h"
#include "passes/attributes/SpelledConstant.h"
#include "passes/attributes/StateThreading.h"
#include "passes/attributes/TensorConstants.h"
#include "passes/attributes/TupleClasses.h"
#include "passes/attributes/WrittenAttributes.h"

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>

#include <map>
#include <set>

namespace pipec {

namespace {

using torch::jit::Block;
using torch::jit::Graph;
using torch::jit::Node;
using torch::jit::Value;
using Entry = ModuleEntry;

class LowerAttributes : public ModelPass {
public:
  explicit LowerAttributes(LowerAttributesOptions options) : options_(std::move(options)) {}

  llvm::Expected<bool> run(Model &model, PassContext &) override {
    if (!model.self.isObject())
      return false;
    TRY(guardTorchError(ExitCode::Internal, "lowering the model's attributes",
                        [&] { return lower(model); }));
    return true;
  }

private:
  llvm::Error lower(Model &model) {
    model_ = &model;
    std::set<std::string> objects;
    entries_ = moduleEntries(model.self.toObjectRef(), objects);
    kept_ = TRY(keptModules(torch::jit::Module(model.self.toObject()), options_.keepEval));
    for (size_t i = 0; i < entries_.size(); ++i)
      entryOf_[entries_[i].path] = i;
    Graph &graph = *model.graph;
    TRY(lowerObjects(objects));
    paths_[graph.inputs()[0]] = "";
    scan(*graph.block());
    makeAttributes();
    TRY(makeStateOutputs());
    tuples_.retype(*graph.block()); // classes determine the types of state that branches and loops
                                    // return
    TRY(replaceReads(*graph.block()));
    lowerTensorConstants(model, *graph.block(), [&](const Entry &entry) {
      addAttribute(entry);
      return inputOf_[entry.path];
    });
    removeModules(*graph.block());
    TRY(refuseObjects(*graph.block(), paths_, tuples_));
    TRY(refuseModuleAsValue(graph.inputs()[0]));
    graph.eraseInput(0);
    TRY(refuseAttributes(model.attributes));
    numberStorages();
    TRY(settleWrites());
    model.self = c10::IValue();
    return llvm::Error::success();
  }

  llvm::Error lowerObjects(const std::set<std::string> &objects) {
    TRY(lowerLocalObjects(*model_->graph));
    for (const Entry &entry : entries_) {
      tuples_.note(entry.type);
      tuples_.noteStored(entry.type);
    }
    TRY(lowerObjectValues(*model_->graph, objects, tuples_));
    for (Entry &entry : entries_) {
      const c10::TypePtr type = tuples_.tupleType(entry.type);
      if (type == entry.type)
        continue;
      entry.saved = entry.value;
      entry.value = tuples_.tupleValue(entry.value, entry.type);
      entry.type = type;
      entry.kind = AttributeKind::Value;
    }
    return llvm::Error::success();
  }

  /// Finds paths of module values, reads and assignments.
  void scan(Block &block) {
    for (Node *node : block.nodes()) {
      if (node->kind() == c10::prim::GetAttr || node->kind() == c10::prim::SetAttr) {
        bool known = false;
        std::string path = attributePath(node->input(0), node->s(c10::attr::name), paths_, known);
        if (known && node->kind() == c10::prim::SetAttr) {
          assigned_.insert(path);
          if (!entryOf_.count(path))
            replaced_ = node;
        } else if (known && entryOf_.count(path))
          read_.insert(path);
        else if (known)
          paths_[node->output()] = path; // a submodule
      }
      for (Block *inner : node->blocks())
        scan(*inner);
    }
  }

  bool needsInput(const Entry &entry) const {
    if (assigned_.count(entry.path))
      return true;
    if (entry.value.isTensor())
      return entry.value.toTensor().defined();
    if (entry.kind == AttributeKind::Object)
      return true;
    return holdsTensor(entry.value);
  }

  /// A list or dict is a constant only if no operator changes it or its content. Until that is
  /// known it is an input.
  bool mayBecomeConstant(const Entry &entry) const {
    return !needsInput(entry) && hasMemory(*entry.type);
  }

  static bool holdsTensor(const c10::IValue &value) {
    c10::IValue::HashIdentityIValueMap unused;
    bool found = false;
    value.visit([&](const c10::IValue &inner) {
      found |= inner.isTensor();
      return found;
    });
    return found;
  }

  /// Makes one input per attribute that is read, and per unread tensor. Unread names of a tensor
  /// become other names of the entry that is read.
  void makeAttributes() {
    std::map<TensorKey, std::string> readNameOf;
    for (const Entry &entry : entries_)
      if (entry.value.isTensor() && entry.value.toTensor().defined() && read_.count(entry.path))
        readNameOf.try_emplace(keyOf(entry.value.toTensor()), entry.path);
    for (const Entry &entry : entries_) {
      bool isRead = read_.count(entry.path) || assigned_.count(entry.path);
      bool isTensor = entry.value.isTensor() && entry.value.toTensor().defined();
      if (!isRead && !isTensor)
        continue;
      if (isRead && !needsInput(entry) && !mayBecomeConstant(entry))
        continue;
      if (!isRead) {
        auto same = readNameOf.find(keyOf(entry.value.toTensor()));
        if (same != readNameOf.end()) {
          Attribute &read =
              model_->attributes[attributeOf_.count(same->second)
                                     ? attributeOf_[same->second]
                                     : addAttribute(entries_[entryOf_[same->second]])];
          read.otherNames.push_back(entry.path);
          if (entry.isPlain)
            read.plainNames.push_back(entry.path);
          continue;
        }
        // Not read under any name: its first name is the entry.
        readNameOf[keyOf(entry.value.toTensor())] = entry.path;
      }
      if (!attributeOf_.count(entry.path))
        addAttribute(entry);
    }
  }

  size_t addAttribute(const Entry &entry) {
    Attribute attribute;
    attribute.name = entry.path;
    if (entry.isPlain)
      attribute.plainNames.push_back(entry.path);
    attribute.kind = entry.kind;
    attribute.value = entry.value;
    attribute.requiresGrad = entry.value.isTensor() && entry.value.toTensor().requires_grad();
    attribute.written = assigned_.count(entry.path) != 0;
    size_t index = model_->attributes.size();
    attributeOf_[entry.path] = index;
    model_->attributes.push_back(std::move(attribute));
    Value *input = model_->graph->addInput();
    input->setType(entry.value.isTensor() && !assigned_.count(entry.path) ? c10::TensorType::get()
                                                                          : entry.type);
    inputOf_[entry.path] = input;
    return index;
  }

  llvm::Error makeStateOutputs() {
    if (replaced_) // another object replaces one that is represented by its attributes elsewhere
      return refuseWith(Refusal::ObjectAttribute, describeNode(replaced_),
                        replaced_->s(c10::attr::name),
                        replaced_->input(1)->type()->annotation_str(), "");
    std::map<std::string, Value *> current;
    for (const std::string &path : assigned_) {
      if (!inputOf_.count(path))
        return makeError(ExitCode::Internal,
                         "attribute " + path +
                             " is assigned in the method but not known to the module");
      current[path] = inputOf_[path];
    }
    TRY(threadState(*model_->graph->block(), paths_, current));
    for (const auto &[path, value] : current) {
      model_->stateOutputs.push_back(attributeOf_[path]);
      model_->graph->registerOutput(value);
    }
    return llvm::Error::success();
  }

  llvm::Error replaceReads(Block &block) {
    for (auto it = block.nodes().begin(); it != block.nodes().end();) {
      Node *node = *it;
      ++it;
      for (Block *inner : node->blocks())
        TRY(replaceReads(*inner));
      if (node->kind() != c10::prim::GetAttr)
        continue;
      bool known = false;
      std::string path = attributePath(node->input(0), node->s(c10::attr::name), paths_, known);
      if (!known || !entryOf_.count(path))
        continue;
      const Entry &entry = entries_[entryOf_[path]];
      if (mayBecomeConstant(entry)) {
        Node *same = model_->graph->create(c10::prim::unchecked_cast, {inputOf_[path]});
        same->insertBefore(node)->copyMetadata(node)->output()->setType(inputOf_[path]->type());
        node->output()->replaceAllUsesWith(same->output());
        node->destroy();
        undecided_[path].push_back(same);
        continue;
      }
      Value *value = TRY(valueOf(node, entry));
      node->output()->replaceAllUsesWith(value);
      node->destroy();
    }
    return llvm::Error::success();
  }

  llvm::Expected<Value *> valueOf(Node *read, const Entry &entry) {
    if (auto input = inputOf_.find(entry.path); input != inputOf_.end())
      return input->second;
    torch::jit::WithInsertPoint guard(read);
    return spelledConstant(foldTraining(entry), entry.type, entry.path, read);
  }

  /// Finds the attributes that the method writes, directly or through their content. A list or dict
  /// that does not change becomes a constant.
  llvm::Error settleWrites() {
    std::vector<c10::IValue> saved;
    for (const Attribute &attribute : model_->attributes) {
      auto entry = entryOf_.find(attribute.name);
      const bool changed = entry != entryOf_.end() && !entries_[entry->second].saved.isNone();
      saved.push_back(changed ? entries_[entry->second].saved : attribute.value);
    }
    std::vector<bool> written = TRY(writtenAttributes(*model_, saved));
    const size_t arguments = model_->argumentCount();
    for (size_t i = model_->attributes.size(); i-- > 0;) {
      Attribute &attribute = model_->attributes[i];
      attribute.written = attribute.written || written[i];
      auto reads = undecided_.find(attribute.name);
      if (reads == undecided_.end())
        continue;
      const Entry &entry = entries_[entryOf_[attribute.name]];
      for (Node *read : reads->second) {
        torch::jit::WithInsertPoint guard(read);
        Value *value = TRY(written[i] ? read->input(0)
                                      : spelledConstant(entry.value, entry.type, entry.path, read));
        read->output()->replaceAllUsesWith(value);
        read->destroy();
      }
      if (!written[i])
        eraseAttribute(i, arguments + i);
    }
    return llvm::Error::success();
  }

  void eraseAttribute(size_t attribute, size_t input) {
    model_->graph->eraseInput(input);
    model_->attributes.erase(model_->attributes.begin() + static_cast<int64_t>(attribute));
    for (size_t &state : model_->stateOutputs)
      state -= state > attribute;
  }

  c10::IValue foldTraining(const Entry &entry) const {
    if (!entry.isModuleFlag)
      return entry.value;
    if (kept_.count(llvm::StringRef(entry.path).rsplit('.').first.str()))
      return false;
    return options_.training ? c10::IValue(*options_.training) : entry.value;
  }

  /// GetAttr of submodules, inner ones last.
  void removeModules(Block &block) {
    for (auto it = block.nodes().rbegin(); it != block.nodes().rend();) {
      Node *node = *it;
      ++it;
      for (Block *inner : node->blocks())
        removeModules(*inner);
      if (node->kind() == c10::prim::GetAttr && paths_.count(node->output()) && !node->hasUses())
        node->destroy();
    }
  }

  void numberStorages() {
    std::vector<at::Tensor> tensors;
    for (const Attribute &attribute : model_->attributes)
      tensors.push_back(attribute.value.isTensor() ? attribute.value.toTensor() : at::Tensor());
    std::vector<int64_t> ids = storageIds(tensors);
    for (size_t i = 0; i < ids.size(); ++i)
      model_->attributes[i].storage = ids[i];
  }

  const LowerAttributesOptions options_;
  Node *replaced_ = nullptr;   // assigns an object that is no entry
  std::set<std::string> kept_; // paths of modules in eval mode
  Model *model_ = nullptr;
  std::vector<Entry> entries_;
  std::map<std::string, size_t> entryOf_, attributeOf_;
  std::map<std::string, Value *> inputOf_;
  std::set<std::string> read_, assigned_;
  std::map<std::string, std::vector<Node *>> undecided_; // reads of attributes that may become
                                                         // constants
  ModulePaths paths_;
  TupleClasses tuples_;
};

} // namespace

OptionFields<LowerAttributesOptions> LowerAttributesOptions::fields() {
  return {choiceOption<LowerAttributesOptions, std::optional<bool>>(
              "training=saved|true|false", "what training flags are folded to",
              &LowerAttributesOptions::training,
              {{"saved", std::nullopt}, {"true", true}, {"false", false}}),
          listOption("keep-eval=A:B", "modules whose flags are folded to false",
                     &LowerAttributesOptions::keepEval)};
}

PassInfo lowerAttributes() {
  return {.name = "lower-attributes",
          .description = "replaces the module by one graph input per tensor, object and written "
                         "value, and by constants for the rest",
          .requires_ = "calls are inlined",
          .guarantees = "no prim::GetAttr, no prim::SetAttr, objects of TorchScript "
                        "classes are their values, in tuples where they are handed on; "
                        "attributes with names, storage and "
                        "kind; training flags folded",
          .example = R"(
    %w : Tensor = prim::GetAttr[name="weight"](%self)
    =>
    graph(%x : Tensor, %weight : Tensor))",
          .options = optionsOf<LowerAttributesOptions>(),
          .make = withOptions<LowerAttributes, LowerAttributesOptions>()};
}

} // namespace pipec
