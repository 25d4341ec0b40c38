#include "passes/attributes/ObjectValues.h"

#include "ir/NodeInfo.h"
#include "ir/support/Llvm.h"
#include "ir/support/StringSwitch.h"
#include "ir/support/Try.h"
#include "llvm/ADT/STLExtras.h"
#include "passes/attributes/StateThreading.h"
#include "passes/attributes/TupleClasses.h"

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

namespace {

using torch::jit::Block;
using torch::jit::Graph;
using torch::jit::Node;
using torch::jit::Value;

class ObjectValues {
public:
  ObjectValues(Graph &graph, const std::set<std::string> &objectPaths, TupleClasses &classes)
      : graph_(graph), objectPaths_(objectPaths), classes_(classes) {}

  llvm::Error lower() {
    paths_[graph_.inputs()[0]] = "";
    readBlock(*graph_.block());
    for (Value *input : graph_.inputs().slice(1))
      classes_.reject(input->type());
    for (Value *output : graph_.outputs())
      classes_.reject(output->type(), "the model returns it"); // an object, as its caller expects
    // Objects of the model's file are known by their paths.
    for (Node *read : reads_)
      classes_.noteStored(read->output()->type());
    for (Node *write : writes_)
      classes_.noteStored(write->input(1)->type());
    classes_.settle();
    if (classes_.empty())
      return llvm::Error::success();
    for (Node *read : reads_)
      readAsTuple(read);
    for (Node *write : writes_)
      if (classes_.isTuple(write->input(1)->type())) {
        assignEach(pathRead(write), write->input(1), write);
        write->destroy();
      }
    for (Node *maker : makers_)
      if (classes_.hasCells(maker->output()->type()))
        makeCells(maker);
      else if (classes_.isTuple(maker->output()->type()))
        makeTuple(maker);
    TRY(lowerLocalObjects(graph_));
    indexTuples(*graph_.block());
    classes_.retype(*graph_.block());
    return llvm::Error::success();
  }

private:
  /// Whether tuples may take the place of the objects that the operator reads or returns: it
  /// stores, forwards or extracts them, and uses nothing else of them.
  static bool forwardsTuples(Node *node) {
    const bool withNone = llvm::any_of(node->inputs(), [](Value *value) {
      return value->type()->kind() == c10::TypeKind::NoneType;
    });
    const bool ofLists = !node->inputs().empty() && node->input(0)->type()->cast<c10::ListType>();
    const bool ofDicts = !node->inputs().empty() && node->input(0)->type()->cast<c10::DictType>();
    return StringSwitch<bool>(node->kind().toQualString())
        .Cases(
            {"prim::TupleConstruct", "prim::TupleUnpack", "prim::TupleIndex", "prim::TupleSlice"},
            true)
        .Cases({"prim::ListConstruct", "prim::ListUnpack", "prim::DictConstruct"}, true)
        .Cases({"prim::If", "prim::Loop", "prim::Return"}, true)
        .Cases({"prim::GetAttr", "prim::SetAttr", "prim::CreateObject", "prim::Uninitialized"},
               true)
        .Cases(
            {"prim::unchecked_cast", "prim::unchecked_unwrap_optional", "aten::_unwrap_optional"},
            true)
        .Cases({"aten::append", "aten::extend", "aten::insert", "aten::pop", "aten::clear"}, true)
        .Cases({"aten::list", "aten::slice", "aten::len", "aten::__getitem__", "aten::_set_item"},
               true)
        .Cases({"aten::get", "aten::keys", "aten::values", "aten::items"}, true)
        .Case("aten::add", ofLists)
        .Case("aten::__contains__", ofDicts)
        // Two equal tuples may have been two objects.
        .Cases({"aten::__is__", "aten::__isnot__"}, withNone)
        .Default(false);
  }

  bool isPath(Value *value) const { return paths_.count(value) != 0; }

  void readBlock(Block &block) {
    for (Value *input : block.inputs())
      classes_.note(input->type());
    for (Node *node : block.nodes()) {
      readNode(node);
      for (Value *output : node->outputs())
        classes_.note(output->type());
      if (!forwardsTuples(node))
        for (auto values : {node->inputs(), node->outputs()})
          for (Value *value : values)
            classes_.reject(value->type(), describeNode(node));
      rejectThroughAny(node);
      for (Block *inner : node->blocks())
        readBlock(*inner);
    }
  }

  /// If an object becomes a value of type Any, or the reverse, the model tests its class at run
  /// time.
  void rejectThroughAny(Node *node) {
    std::vector<c10::TypePtr> types;
    auto add = [&](at::ArrayRef<Value *> values) {
      for (Value *value : values)
        types.push_back(value->type());
    };
    add(node->inputs());
    add(node->outputs());
    for (Block *inner : node->blocks()) {
      add(inner->inputs());
      add(inner->outputs());
    }
    if (node->kind() == c10::prim::GetAttr || node->kind() == c10::prim::SetAttr)
      if (auto owner = node->input(0)->type()->cast<c10::ClassType>())
        types.push_back(owner->getAttribute(node->s(c10::attr::name)));
    const bool isTest = node->kind() == c10::prim::isinstance;
    if (isTest)
      for (const c10::TypePtr &type : node->tys(c10::attr::types))
        types.push_back(type);
    if (isTest || llvm::any_of(types, TupleClasses::namesAny))
      for (const c10::TypePtr &type : types)
        classes_.reject(type, describeNode(node));
  }

  void readNode(Node *node) {
    const bool reads = node->kind() == c10::prim::GetAttr;
    if (node->kind() == c10::prim::CreateObject)
      makers_.push_back(node);
    if (!reads && node->kind() != c10::prim::SetAttr)
      return;
    bool known = false;
    const std::string path = attributePath(node->input(0), node->s(c10::attr::name), paths_, known);
    if (known && reads && (objectPaths_.count(path) || isModule(node->output()->type()))) {
      paths_[node->output()] = path;
      if (!isModule(node->output()->type()))
        reads_.push_back(node);
    } else if (known && !reads && objectPaths_.count(path)) {
      writes_.push_back(node);
      replaced_.insert(path);
    }
    // Anything but the making of an object writes what others may see.
    if (!reads && !isModule(node->input(0)->type()) && !isMaking(node)) {
      if (known)
        classes_.reject(node->input(0)->type());
      else
        classes_.needCells(node->input(0)->type());
    }
  }

  static bool isModule(const c10::TypePtr &type) { return type->is_module(); }

  // Objects that the method makes.

  static bool isAccess(const torch::jit::Use &use) {
    return use.offset == 0 &&
           (use.user->kind() == c10::prim::GetAttr || use.user->kind() == c10::prim::SetAttr);
  }

  /// Whether `one` may run before `other`, both inside `top`. False if they are in different
  /// branches of one condition.
  static bool mayPrecede(Node *one, Node *other, const Block *top) {
    for (Node *a = one;; a = a->owningBlock()->owningNode()) {
      Node *b = other;
      while (b->owningBlock() != a->owningBlock() && b->owningBlock() != top)
        b = b->owningBlock()->owningNode();
      if (b->owningBlock() != a->owningBlock())
        continue;
      for (const Block *block = a->owningBlock(); block != top;) {
        Node *around = const_cast<Block *>(block)->owningNode();
        if (around->kind() == c10::prim::Loop)
          return true; // in an earlier iteration
        block = around->owningBlock();
      }
      return a == b ? a->kind() != c10::prim::If : a->isBefore(b);
    }
  }

  /// Whether an assignment is to an object that no other code has seen yet.
  static bool isMaking(Node *assignment) {
    Node *maker = assignment->input(0)->node();
    if (maker->kind() != c10::prim::CreateObject)
      return false;
    return llvm::none_of(maker->output()->uses(), [&](const torch::jit::Use &use) {
      return !isAccess(use) && mayPrecede(use.user, assignment, maker->owningBlock());
    });
  }

  /// Makes a tuple of the object for every use that is no access to an attribute.
  void makeTuple(Node *maker) {
    for (const torch::jit::Use &use : std::vector<torch::jit::Use>(maker->output()->uses()))
      if (!isAccess(use))
        use.user->replaceInput(use.offset, tupleOf(maker->output(), use.user, maker, false));
  }

  /// Cells, empty until something is assigned to the attributes.
  void makeCells(Node *maker) {
    auto type = maker->output()->type()->expect<c10::ClassType>();
    std::vector<Value *> cells;
    for (const c10::TypePtr &attribute : type->containedTypes())
      cells.push_back(
          graph_.createList(attribute, {})->insertBefore(maker)->copyMetadata(maker)->output());
    Node *tuple = graph_.create(c10::prim::TupleConstruct, cells)->insertBefore(maker);
    tuple->copyMetadata(maker)->output()->setType(type);
    maker->output()->replaceAllUsesWith(tuple->output());
    maker->destroy();
  }

  // Attributes of the model that are objects.

  /// An object with other uses than accesses to its attributes, or one that may be replaced later,
  /// becomes a tuple of its attributes at the place of the read.
  void readAsTuple(Node *read) {
    Value *object = read->output();
    if (!isPath(read->input(0)))
      paths_.erase(object); // of a tuple by now
    if (!isPath(object) || !classes_.isTuple(object->type()))
      return;
    const bool replaced = isReplaced(paths_[object]);
    if (!replaced && llvm::all_of(object->uses(), isAccess))
      return;
    const std::vector<torch::jit::Use> uses = object->uses();
    Value *tuple = tupleOf(object, read->next(), read, true);
    for (const torch::jit::Use &use : uses)
      if (replaced || !isAccess(use))
        use.user->replaceInput(use.offset, tuple);
  }

  bool isReplaced(const std::string &path) const {
    return llvm::any_of(replaced_, [&](const std::string &other) {
      return path == other || startsWith(path, other + ".");
    });
  }

  Value *readOf(Value *object, const std::string &name, Node *before, Node *origin) {
    Node *read = graph_.createGetAttr(object, name)->insertBefore(before);
    return read->copyMetadata(origin)->output();
  }

  /// deep: objects that are attributes of attributes of the model are tuples in their turn.
  Value *tupleOf(Value *object, Node *before, Node *origin, bool deep) {
    auto type = object->type()->expect<c10::ClassType>();
    std::vector<Value *> elements;
    for (size_t i = 0; i < type->numAttributes(); ++i) {
      Value *element = readOf(object, type->getAttributeName(i), before, origin);
      if (deep && hasPath(object, type->getAttributeName(i), element))
        element = tupleOf(element, before, origin, true);
      elements.push_back(element);
    }
    Node *tuple = graph_.create(c10::prim::TupleConstruct, elements)->insertBefore(before);
    tuple->copyMetadata(origin);
    return tuple->output()->setType(type);
  }

  /// Notes the path of an object that is read.
  bool hasPath(Value *owner, const std::string &name, Value *read) {
    bool known = false;
    const std::string path = attributePath(owner, name, paths_, known);
    if (!known || !objectPaths_.count(path))
      return false;
    paths_[read] = path;
    return true;
  }

  Value *pathRead(Node *write) {
    const std::string name = write->s(c10::attr::name);
    Value *object = readOf(write->input(0), name, write, write);
    hasPath(write->input(0), name, object);
    return object;
  }

  /// An attribute that gets another object gets its attributes.
  void assignEach(Value *object, Value *by, Node *before) {
    auto type = object->type()->expect<c10::ClassType>();
    for (size_t i = 0; i < type->numAttributes(); ++i) {
      const std::string &name = type->getAttributeName(i);
      Value *value = readOf(by, name, before, before);
      bool known = false;
      if (objectPaths_.count(attributePath(object, name, paths_, known))) {
        Value *inner = readOf(object, name, before, before);
        hasPath(object, name, inner);
        assignEach(inner, value, before);
        continue;
      }
      graph_.createSetAttr(object, name, value)->insertBefore(before)->copyMetadata(before);
    }
  }

  // Removes their remains.

  void indexTuples(Block &block) {
    for (auto it = block.nodes().begin(); it != block.nodes().end();) {
      Node *node = *it;
      ++it;
      for (Block *inner : node->blocks())
        indexTuples(*inner);
      const bool reads = node->kind() == c10::prim::GetAttr;
      if (!reads && node->kind() != c10::prim::SetAttr)
        continue;
      if (isPath(node->input(0)) || !classes_.isTuple(node->input(0)->type()))
        continue;
      const bool hasCells = classes_.hasCells(node->input(0)->type());
      if (!reads && !hasCells)
        continue;
      auto type = node->input(0)->type()->expect<c10::ClassType>();
      const size_t slot = type->getAttributeSlot(node->s(c10::attr::name));
      const c10::TypePtr held = type->getAttribute(slot);
      torch::jit::WithInsertPoint guard(node);
      auto insert = [&](Node *made) { return graph_.insertNode(made)->copyMetadata(node); };
      Value *at = graph_.insertConstant(static_cast<int64_t>(slot));
      Value *value = insert(graph_.createTupleIndex(node->input(0), at,
                                                    hasCells ? c10::ListType::create(held) : held))
                         ->output();
      if (!reads) {
        insert(graph_.create(c10::aten::clear, {value}, 0));
        insert(graph_.create(c10::aten::append, {value, node->input(1)}))
            ->output()
            ->setType(value->type());
      } else if (hasCells) {
        Value *first = graph_.insertConstant(int64_t(0));
        value =
            insert(graph_.create(c10::aten::__getitem__, {value, first}))->output()->setType(held);
      }
      if (reads)
        node->output()->replaceAllUsesWith(value);
      node->destroy();
    }
  }

  Graph &graph_;
  const std::set<std::string> &objectPaths_;
  TupleClasses &classes_;
  ModulePaths paths_; // of modules and of objects that are attributes
  std::vector<Node *> makers_, reads_, writes_;
  std::set<std::string> replaced_; // paths that get another object
};

} // namespace

llvm::Error lowerObjectValues(Graph &graph, const std::set<std::string> &objectPaths,
                              TupleClasses &classes) {
  return ObjectValues(graph, objectPaths, classes).lower();
}

} // namespace pipec
