#include "ir/text/ScriptSource.h"

#include "ir/MarkerOps.h"
#include "ir/ModelSignature.h"
#include "ir/TorchError.h"
#include "ir/support/Try.h"
#include "ir/text/AttributeText.h"
#include "llvm/ADT/StringExtras.h"

#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/frontend/resolver.h>
#include <torch/csrc/jit/frontend/sugared_value.h>
#include <torch/csrc/jit/ir/ir.h>

namespace pipec {
namespace {

using torch::jit::CompilationUnit;
using torch::jit::Module;

/// Finds free functions of the source, then LibTorch's own names.
class SourceResolver : public torch::jit::Resolver {
public:
  explicit SourceResolver(std::shared_ptr<CompilationUnit> unit) : unit_(std::move(unit)) {}

  std::shared_ptr<torch::jit::SugaredValue>
  resolveValue(const std::string &name, torch::jit::GraphFunction &function,
               const torch::jit::SourceRange &range) override {
    if (torch::jit::Function *found = unit_->find_function(c10::QualifiedName("__torch__." + name)))
      return std::make_shared<torch::jit::FunctionValue>(
          torch::jit::StrongFunctionPtr(unit_, found));
    return torch::jit::nativeResolver()->resolveValue(name, function, range);
  }

private:
  std::shared_ptr<CompilationUnit> unit_;
};

class SourceBuilder {
public:
  explicit SourceBuilder(llvm::StringRef source)
      : source_(source), unit_(std::make_shared<CompilationUnit>()) {}

  llvm::Expected<Module> build() {
    TRY(readLines());
    std::vector<Attribute> attributes = TRY(attributes_.build());
    return guardTorch(ExitCode::Unreadable, "compiling the source", [&] {
      moduleAt("");
      for (const auto &[path, text] : sections_)
        moduleAt(path);
      for (const Attribute &attribute : attributes)
        declare(attribute);
      for (auto &[path, module] : modules_)
        if (!module.hasattr("training"))
          module.register_attribute("training", c10::BoolType::get(), false);
      const auto resolver = std::make_shared<SourceResolver>(unit_);
      if (!functions_.empty())
        unit_->define(c10::QualifiedName("__torch__"), functions_, resolver, nullptr);
      for (const auto &[path, text] : sections_)
        if (!path.empty())
          moduleAt(path).define(text, resolver);
      for (const auto &[path, text] : sections_)
        if (path.empty())
          moduleAt(path).define(text, resolver);
      return moduleAt("");
    });
  }

private:
  llvm::Error readLines() {
    size_t number = 0;
    std::string *target = &section("");
    for (llvm::StringRef line : llvm::split(source_, '\n')) {
      ++number;
      const size_t marker = line.find("#!");
      if (marker == llvm::StringRef::npos || !line.take_front(marker).trim().empty()) {
        *target += line.str() + "\n";
        continue;
      }
      TextLine words(line.drop_front(marker + 2), number);
      const std::string keyword = words.word("attribute, function or module");
      if (keyword == "attribute") {
        attributes_.add(words);
      } else if (keyword == "function") {
        target = &functions_;
      } else if (keyword == "module") {
        const std::string path = words.word("the path of a module");
        target = &section(path == "." ? "" : path);
      } else {
        words.complain("expected attribute, function or module, got " + keyword);
      }
      TRY(words.finish());
    }
    return llvm::Error::success();
  }

  std::string &section(const std::string &path) {
    for (auto &[known, text] : sections_)
      if (known == path)
        return text;
    return sections_.emplace_back(path, "").second;
  }

  /// The module at a path, made with its parents when it is new.
  Module moduleAt(const std::string &path) {
    const auto known = modules_.find(path);
    if (known != modules_.end())
      return known->second;
    std::string className = "__torch__.Model" + (path.empty() ? "" : "_" + path);
    std::replace(className.begin() + 10, className.end(), '.', '_');
    const Module module(c10::QualifiedName(className), unit_);
    modules_.emplace(path, module);
    if (!path.empty()) {
      const auto [parent, name] = splitPath(path);
      moduleAt(parent).register_module(name, module);
    }
    return module;
  }

  static std::pair<std::string, std::string> splitPath(const std::string &path) {
    const size_t dot = path.rfind('.');
    if (dot == std::string::npos)
      return {"", path};
    return {path.substr(0, dot), path.substr(dot + 1)};
  }

  void declare(const Attribute &attribute) {
    for (const std::string &full : attribute.allNames()) {
      const auto [path, name] = splitPath(full);
      Module module = moduleAt(path);
      switch (attribute.kind) {
      case AttributeKind::Parameter:
        module.register_parameter(name, attribute.value.toTensor(), false);
        break;
      case AttributeKind::Buffer:
        module.register_buffer(name, attribute.value.toTensor());
        break;
      case AttributeKind::Constant:
      case AttributeKind::Value:
      case AttributeKind::Object:
        module.register_attribute(name, attribute.value.type(), attribute.value);
        break;
      }
    }
  }

  llvm::StringRef source_;
  std::shared_ptr<CompilationUnit> unit_;
  AttributeReader attributes_{"."};
  std::string functions_;
  std::vector<std::pair<std::string, std::string>>
      sections_; // module path, methods; in order of the source
  std::map<std::string, Module> modules_;
};

} // namespace

llvm::Expected<Model> modelFromSource(llvm::StringRef source, const std::string &method) {
  registerMarkerOps();
  Module module = TRY(SourceBuilder(source).build());
  const std::optional<torch::jit::Method> found = module.find_method(method);
  if (!found)
    return failf(ExitCode::Unreadable, "the source has no method {}", method);
  return guardTorch(ExitCode::Unreadable, "reading method " + method, [&] {
    Model model;
    model.graph = torch::jit::toGraphFunction(found->function()).graph()->copy();
    model.signature = signatureOf(found->function().getSchema(), method);
    model.self = module._ivalue();
    return model;
  });
}

} // namespace pipec
