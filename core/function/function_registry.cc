#include "core/function/function_registry.h"

#include <utility>

#include "core/base/error.h"

namespace tutti {
namespace {

constexpr std::string_view kRegisteredKind = "registered";

// A function that knows the name it was registered under.
class RegisteredFunction final : public Function {
 public:
  RegisteredFunction(std::string name, Ref<Function> target)
      : Function(std::move(name)), target_(std::move(target)) {}

  Status Call(Context& context, const Value& in, Ref<Value>* out) override {
    return target_->Call(context, in, out);
  }
  Granularity granularity() const override { return target_->granularity(); }
  bool calls_host() const override { return target_->calls_host(); }
  Result<Ref<const ElementSpec>> OutputSpec(const ElementSpec* input) const override {
    return target_->OutputSpec(input);
  }
  Result<FunctionDefinition> Define() const override {
    return FunctionDefinition{std::string(kRegisteredKind), name()};
  }

 private:
  const Ref<Function> target_;
};

template <typename Map>
std::vector<std::string> KeysOf(const Map& map) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : map) keys.push_back(key);
  return keys;
}

}  // namespace

FunctionRegistry::FunctionRegistry() = default;
FunctionRegistry::~FunctionRegistry() = default;

Status FunctionRegistry::Register(std::string name, Ref<Function> function) {
  if (name.empty()) return InvalidArgument("register function: the name is empty");
  auto registered = MakeRef<RegisteredFunction>(name, std::move(function));
  std::lock_guard<std::mutex> lock(mutex_);
  const auto [entry, added] = functions_.emplace(std::move(name), registered);
  if (added) return OkStatus();
  return AlreadyExists(
      "register function: the name {} is taken; choose another, or unregister it first",
      Quote(entry->first));
}

Status FunctionRegistry::NoSuchName(std::string_view name) const {
  const std::vector<std::string> names = KeysOf(functions_);
  const std::string nearest = NearestName(name, names);
  if (!nearest.empty()) {
    return NotFound("no function is registered as {}; did you mean {}?", Quote(name),
                    Quote(nearest))
        .With("function", std::string(name));
  }
  if (names.empty()) {
    return NotFound("no function is registered as {}: none is registered at all", Quote(name))
        .With("function", std::string(name));
  }
  return NotFound("no function is registered as {}; registered are {}", Quote(name),
                  Join(names, ", "))
      .With("function", std::string(name));
}

Status FunctionRegistry::Unregister(std::string_view name) {
  Ref<Function> removed;  // given up after the lock
  std::lock_guard<std::mutex> lock(mutex_);
  const auto entry = functions_.find(name);
  if (entry == functions_.end()) return NoSuchName(name);
  removed = std::move(entry->second);
  functions_.erase(entry);
  return OkStatus();
}

Result<Ref<Function>> FunctionRegistry::Find(std::string_view name) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto entry = functions_.find(name);
  if (entry == functions_.end()) return NoSuchName(name);
  return entry->second;
}

std::vector<std::string> FunctionRegistry::Names() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return KeysOf(functions_);
}

Status FunctionRegistry::AddKind(std::string kind, Reader reader) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (kind == kRegisteredKind || !readers_.emplace(kind, reader).second) {
    return AlreadyExists("functions of kind {} have a reader already", Quote(kind));
  }
  return OkStatus();
}

Result<Ref<Function>> FunctionRegistry::Make(const FunctionDefinition& definition) const {
  if (definition.kind == kRegisteredKind) return Find(definition.payload);
  Reader reader = nullptr;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto entry = readers_.find(definition.kind);
    if (entry == readers_.end()) {
      std::vector<std::string> kinds = KeysOf(readers_);
      kinds.emplace_back(kRegisteredKind);
      return Unimplemented(
          "functions of kind {} cannot be read here; known are {}; a newer release may have "
          "written this definition: read it with that one",
          Quote(definition.kind), Join(kinds, ", "));
    }
    reader = entry->second;
  }
  return reader(definition.payload);
}

void FunctionRegistry::Clear() {
  std::map<std::string, Ref<Function>, std::less<>> removed;  // given up after the lock
  std::lock_guard<std::mutex> lock(mutex_);
  removed.swap(functions_);
}

}  // namespace tutti
