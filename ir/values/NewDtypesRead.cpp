// The other direction: a small machine for the opcodes that torch.save writes.
#include "ir/values/NewDtypes.h"
#include "llvm/ADT/STLExtras.h"

#include <ATen/Functions.h>
#include <ATen/core/Dict.h>
#include <ATen/core/List.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

#include <cstring>
#include <map>

namespace pipec {

namespace {

/// A class or function that the pickle names; on the stack only until it is called.
struct GlobalName : torch::CustomClassHolder {
  explicit GlobalName(std::string text) : name(std::move(text)) {}
  std::string name;
};

c10::IValue global(std::string name) {
  return c10::IValue::make_capsule(c10::make_intrusive<GlobalName>(std::move(name)));
}

std::string nameOf(const c10::IValue &value) {
  return value.isCapsule()
             ? c10::dynamic_intrusive_pointer_cast<GlobalName>(value.toCapsule())->name
             : "";
}

const c10::IValue &element(const c10::IValue &tuple, size_t index) {
  TORCH_CHECK(tuple.isTuple() && index < tuple.toTupleRef().elements().size(),
              "the pickle lacks a part of a tensor");
  return tuple.toTupleRef().elements()[index];
}

class Machine {
public:
  Machine(const std::string &pickle, caffe2::serialize::PyTorchStreamReader &file)
      : left_(pickle), file_(file) {}

  c10::IValue run() {
    while (step(static_cast<unsigned char>(bytes(1)[0]))) {
    }
    c10::IValue result = pop();
    checkNoNames(result);
    return result;
  }

private:
  using Values = std::vector<c10::IValue>;

  std::string_view bytes(size_t n) {
    TORCH_CHECK(n <= left_.size(), "the pickle ends early");
    std::string_view taken = left_.substr(0, n);
    left_.remove_prefix(n);
    return taken;
  }
  template <typename T> T fixed() {
    T value;
    std::memcpy(&value, bytes(sizeof value).data(), sizeof value);
    return value;
  }
  std::string line() {
    size_t end = left_.find('\n');
    TORCH_CHECK(end != std::string_view::npos, "the pickle ends early");
    std::string text(bytes(end));
    bytes(1);
    return text;
  }

  c10::IValue pop() {
    TORCH_CHECK(!stack_.empty() && (marks_.empty() || marks_.back() < stack_.size()),
                "the pickle reads a value from an empty stack");
    c10::IValue value = std::move(stack_.back());
    stack_.pop_back();
    return value;
  }
  const c10::IValue &top() const {
    TORCH_CHECK(!stack_.empty(), "the pickle reads a value from an empty stack");
    return stack_.back();
  }
  Values popLast(size_t n) {
    Values values(n);
    for (size_t i = n; i-- > 0;)
      values[i] = pop();
    return values;
  }
  Values popToMark() {
    TORCH_CHECK(!marks_.empty(), "the pickle reads values from an empty stack");
    Values values = popLast(stack_.size() - marks_.back());
    marks_.pop_back();
    return values;
  }
  void push(c10::IValue value) { stack_.push_back(std::move(value)); }
  void pushTuple(Values values) { push(c10::ivalue::Tuple::create(std::move(values))); }
  const c10::IValue &kept(uint32_t index) const {
    auto found = memo_.find(index);
    TORCH_CHECK(found != memo_.end(), "the pickle reads a memo entry that it did not store");
    return found->second;
  }

  void append(Values values) {
    TORCH_CHECK(top().isList(), "the pickle appends to a value that is not a list");
    c10::List<c10::IValue> list = top().toList();
    for (c10::IValue &value : values)
      list.push_back(std::move(value));
  }
  void setItems(const Values &values) {
    TORCH_CHECK(values.size() % 2 == 0, "the pickle has a key without a value");
    TORCH_CHECK(nameOf(top()).empty(), "unknown torch global, ", nameOf(top()));
    TORCH_CHECK(top().isGenericDict(), "the pickle sets items of a value that is not a dict");
    c10::impl::GenericDict dict = top().toGenericDict();
    for (size_t i = 0; i < values.size(); i += 2)
      dict.insert_or_assign(values[i], values[i + 1]);
  }

  /// ("storage", class, record, device, number of bytes or elements)
  c10::IValue storage(const c10::IValue &id) {
    std::string record = element(id, 2).toStringRef();
    auto found = storages_.find(record);
    if (found == storages_.end()) {
      auto [data, size] = file_.getRecord("data/" + record);
      c10::Storage whole(c10::Storage::use_byte_size_t(), static_cast<int64_t>(size),
                         std::move(data), /*allocator=*/nullptr, /*resizable=*/false);
      found = storages_.emplace(record, std::move(whole)).first;
    }
    // The class of a typed storage says the dtype: "FloatStorage".
    std::string dtype = nameOf(element(id, 1));
    return c10::ivalue::Tuple::create({found->second, std::move(dtype)});
  }

  static at::ScalarType dtypeOf(const std::string &name) {
    if (name == "torch.storage.UntypedStorage")
      return at::kByte;
    static const std::map<std::string, at::ScalarType> kTyped = {
        {"torch.FloatStorage", at::kFloat},
        {"torch.DoubleStorage", at::kDouble},
        {"torch.HalfStorage", at::kHalf},
        {"torch.BFloat16Storage", at::kBFloat16},
        {"torch.ByteStorage", at::kByte},
        {"torch.CharStorage", at::kChar},
        {"torch.ShortStorage", at::kShort},
        {"torch.IntStorage", at::kInt},
        {"torch.LongStorage", at::kLong},
        {"torch.BoolStorage", at::kBool},
        {"torch.ComplexFloatStorage", at::kComplexFloat},
        {"torch.ComplexDoubleStorage", at::kComplexDouble}};
    if (auto typed = kTyped.find(name); typed != kTyped.end())
      return typed->second;
    const auto &names = c10::getStringToDtypeMap();
    auto found = name.rfind("torch.", 0) == 0 ? names.find(name.substr(6)) : names.end();
    TORCH_CHECK(found != names.end(), "unknown torch global, ", name);
    return found->second;
  }

  static std::vector<int64_t> integers(const c10::IValue &tuple) {
    TORCH_CHECK(tuple.isTuple(), "the pickle has a shape that is not a tuple");
    std::vector<int64_t> values;
    for (const c10::IValue &value : tuple.toTupleRef().elements())
      values.push_back(value.toInt());
    return values;
  }

  static at::Tensor tensor(const c10::IValue &arguments, at::ScalarType dtype) {
    c10::Storage storage = element(element(arguments, 0), 0).toStorage();
    return at::empty({0}, dtype)
        .set_(storage, element(arguments, 1).toInt(), integers(element(arguments, 2)),
              integers(element(arguments, 3)));
  }

  c10::IValue call(const std::string &name, const c10::IValue &arguments) {
    if (name == "collections.OrderedDict" && arguments.toTupleRef().elements().empty())
      return global(name); // of a tensor's hooks; anywhere else it is refused
    if (name == "torch._utils._rebuild_tensor_v3")
      return tensor(arguments, dtypeOf(nameOf(element(arguments, 6))));
    if (name == "torch._utils._rebuild_tensor_v2")
      return tensor(arguments, dtypeOf(element(element(arguments, 0), 1).toStringRef()));
    if (name == "__builtin__.complex" || name == "builtins.complex")
      return c10::complex<double>(element(arguments, 0).toDouble(),
                                  element(arguments, 1).toDouble());
    TORCH_CHECK(false, "unknown torch global, ", name);
  }

  /// False: that was the end.
  bool step(unsigned char opcode) {
    switch (opcode) {
    case 0x80:
      bytes(1);
      break; // the protocol
    case '.':
      return false;
    case '(':
      marks_.push_back(stack_.size());
      break;
    case 't':
      pushTuple(popToMark());
      break;
    case ')':
      pushTuple({});
      break;
    case 0x85:
      pushTuple(popLast(1));
      break;
    case 0x86:
      pushTuple(popLast(2));
      break;
    case 0x87:
      pushTuple(popLast(3));
      break;
    case ']':
      push(c10::impl::GenericList(c10::AnyType::get()));
      break;
    case 'a':
      append(popLast(1));
      break;
    case 'e':
      append(popToMark());
      break;
    case '}':
      push(c10::impl::GenericDict(c10::AnyType::get(), c10::AnyType::get()));
      break;
    case 's':
      setItems(popLast(2));
      break;
    case 'u':
      setItems(popToMark());
      break;
    case 'N':
      push(c10::IValue());
      break;
    case 0x88:
      push(true);
      break;
    case 0x89:
      push(false);
      break;
    case 'K':
      push(int64_t(fixed<uint8_t>()));
      break;
    case 'M':
      push(int64_t(fixed<uint16_t>()));
      break;
    case 'J':
      push(int64_t(fixed<int32_t>()));
      break;
    case 0x8a:
      push(longInteger());
      break;
    case 'G':
      push(bigEndianDouble());
      break;
    case 'X':
      push(std::string(bytes(fixed<uint32_t>())));
      break;
    case 'c': {
      std::string module = line();
      push(global(module + "." + line()));
      break;
    }
    case 'q':
      memo_[fixed<uint8_t>()] = top();
      break;
    case 'r':
      memo_[fixed<uint32_t>()] = top();
      break;
    case 'h':
      push(kept(fixed<uint8_t>()));
      break;
    case 'j':
      push(kept(fixed<uint32_t>()));
      break;
    case 'Q':
      push(storage(pop()));
      break;
    case 'R': {
      c10::IValue arguments = pop();
      TORCH_CHECK(arguments.isTuple(), "the pickle calls something without arguments");
      push(call(nameOf(pop()), arguments));
      break;
    }
    default:
      TORCH_CHECK(false, "unexpected opcode ", int(opcode), " in the pickle");
    }
    return true;
  }

  int64_t longInteger() {
    size_t n = fixed<uint8_t>();
    TORCH_CHECK(n <= 8, "Expected length to be 8, got ", n);
    std::string_view little = bytes(n);
    int64_t value = n && (little.back() & 0x80) ? -1 : 0; // the sign
    std::memcpy(&value, little.data(), n);
    return value;
  }
  double bigEndianDouble() {
    std::string reversed(bytes(8));
    std::reverse(reversed.begin(), reversed.end());
    double value;
    std::memcpy(&value, reversed.data(), 8);
    return value;
  }

  static void checkNoNames(const c10::IValue &value) {
    TORCH_CHECK(!value.isCapsule(), "unknown torch global, ", nameOf(value));
    if (value.isTuple())
      llvm::for_each(value.toTupleRef().elements(), checkNoNames);
    else if (value.isList())
      llvm::for_each(value.toListRef(), checkNoNames);
    else if (value.isGenericDict())
      for (const auto &entry : value.toGenericDict())
        checkNoNames(entry.value());
  }

  std::string_view left_;
  caffe2::serialize::PyTorchStreamReader &file_;
  Values stack_;
  std::vector<size_t> marks_;
  std::map<uint32_t, c10::IValue> memo_;
  std::map<std::string, c10::Storage> storages_;
};

} // namespace

c10::IValue readNewDtypes(const std::string &pickle, caffe2::serialize::PyTorchStreamReader &file) {
  return Machine(pickle, file).run();
}

} // namespace pipec
