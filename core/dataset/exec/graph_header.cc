#include "core/dataset/exec/graph_header.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/dataset/exec/iterator_state.h"
#include "core/dataset/graph/graph_fingerprint.h"
#include "core/dataset/graph/graph_walk.h"
#include "core/dataset/graph/node.h"
#include "core/function/function.h"

namespace tutti {
namespace {

struct Header {
  std::string_view fingerprint;
  std::map<std::string_view, int64_t> versions;  // by the ops' names
  std::vector<std::string_view> operations;      // of the first ones; none in a header without text
};

// So many operations are described, in so many bytes each and together at most: a position stays
// small however many there are.
constexpr size_t kDescribed = 64;
constexpr size_t kDescriptionBytes = 160;
constexpr size_t kDescriptionsBytes = 640;

// What is too long for a line ends with a number that tells it from others (FNV-1a).
std::string Shortened(std::string text, size_t limit) {
  if (text.size() <= limit) return text;
  uint32_t hash = 2166136261u;
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 16777619u;
  text.resize(limit);
  return Format("{}... #{:08x}", text, hash);
}

std::string Describe(const Attribute& attribute) {
  if (const auto* number = std::get_if<int64_t>(&attribute)) return Format("{}", *number);
  if (const auto* flag = std::get_if<bool>(&attribute)) return *flag ? "true" : "false";
  if (const auto* text = std::get_if<std::string>(&attribute)) return Quote(*text);
  std::vector<std::string> items;
  if (const auto* numbers = std::get_if<std::vector<int64_t>>(&attribute)) {
    for (const int64_t number : *numbers) items.push_back(Format("{}", number));
    return "[" + Join(items, ", ") + "]";
  }
  if (const auto* texts = std::get_if<std::vector<std::string>>(&attribute)) {
    for (const std::string& text : *texts) items.push_back(Quote(text));
    return "[" + Join(items, ", ") + "]";
  }
  if (const auto* spec = std::get_if<Ref<const ElementSpec>>(&attribute)) {
    return (*spec)->ToString();
  }
  if (const auto* tree = std::get_if<Ref<const TreeSpec>>(&attribute)) return (*tree)->ToString();
  const auto* value = std::get_if<Ref<const Value>>(&attribute);
  return value == nullptr ? std::string() : (*value)->ToString();
}

// "batch(batch_size=2)": what counts for the fingerprint, of this node alone.
std::string Describe(const Node& node) {
  std::vector<std::string> parts;
  const bool seed_is_drawn = !node.attributes().Bool("seed_given", true);
  for (const auto& [name, attribute] : node.attributes().items()) {
    const AttributeTraits& traits = *node.op().FindAttribute(name);
    if (traits.role == AttributeRole::kTuning || traits.IsOtherwise(attribute)) continue;
    if (name == "seed_given" || (name == "seed" && seed_is_drawn)) continue;
    parts.push_back(Format("{}={}", name, Shortened(Describe(attribute), kDescriptionBytes / 2)));
  }
  for (const Ref<Function>& function : node.functions()) {
    const Result<FunctionDefinition> definition = function->Define();
    std::string what(function->name());
    if (definition.ok()) {
      what = Shortened(Format("{} {}", definition->kind, Quote(definition->payload)), 40);
    }
    parts.push_back(what.empty() ? "a function" : Format("function {}", what));
  }
  return Shortened(Format("{}({})", node.op().name, Join(parts, ", ")), kDescriptionBytes);
}

// "operation 2 was batch(batch_size=2) and is batch(batch_size=3)".
std::string Difference(const Header& mine, const Header& theirs) {
  const std::vector<std::string_view>& is = mine.operations;
  const std::vector<std::string_view>& was = theirs.operations;
  if (is.empty() || was.empty()) return "";
  const size_t both = std::min(is.size(), was.size());
  for (size_t i = 0; i < both; ++i) {
    if (is[i] == was[i]) continue;
    return Format(": operation {}, counted from the sources, was {} and is {} here", i + 1, was[i],
                  is[i]);
  }
  if (was.size() > both) {
    return Format(": behind operation {} there was {}, which is not here", both, was[both]);
  }
  if (is.size() > both) {
    return Format(": behind operation {} there is {} here, which was not there", both, is[both]);
  }
  return Format(": the {} operations that are described are the same; their order, their "
                "functions, or what comes behind them differs",
                both);
}

Header Read(std::string_view bytes, StateReader* reader) {
  Header header;
  header.fingerprint = reader->Bytes();
  const int64_t count = reader->IntIn(0, static_cast<int64_t>(bytes.size()));
  for (int64_t i = 0; i < count && reader->ok(); ++i) {
    const std::string_view op = reader->Bytes();
    header.versions[op] = reader->IntIn(0, std::numeric_limits<int64_t>::max());
  }
  if (reader->ok() && !reader->at_end()) {
    const int64_t described = reader->IntIn(0, static_cast<int64_t>(kDescribed));
    for (int64_t i = 0; i < described && reader->ok(); ++i) {
      header.operations.push_back(reader->Bytes());
    }
  }
  if (reader->ok() && !reader->at_end()) reader->Fail("the versions of their ops do not end");
  return header;
}

}  // namespace

Result<std::string> GraphHeader(const Node& root, HeaderText text) {
  TUTTI_ASSIGN_OR_RETURN(const std::string fingerprint, GraphFingerprint(root));
  std::map<std::string_view, int64_t> versions;
  const std::vector<const Node*> nodes = InputsFirst(root);
  for (const Node* node : nodes) {
    versions[node->op().name] = node->op().state_version;
  }
  StateWriter writer;
  writer.Bytes(fingerprint);
  writer.Int(static_cast<int64_t>(versions.size()));
  for (const auto& [op, version] : versions) {
    writer.Bytes(op);
    writer.Int(version);
  }
  if (text == HeaderText::kDescribed) {
    std::vector<std::string> described;
    size_t bytes = 0;
    for (const Node* node : nodes) {
      std::string line = Describe(*node);
      bytes += line.size();
      if (described.size() == kDescribed || bytes > kDescriptionsBytes) break;
      described.push_back(std::move(line));
    }
    writer.Int(static_cast<int64_t>(described.size()));
    for (const std::string& line : described) writer.Bytes(line);
  }
  return std::move(writer).TakeBytes();
}

Status CheckGraphHeader(std::string_view own, std::string_view saved) {
  if (own == saved) return OkStatus();
  StateReader own_reader(own);
  StateReader saved_reader(saved);
  const Header mine = Read(own, &own_reader);
  const Header theirs = Read(saved, &saved_reader);
  if (saved_reader.ok() && mine.fingerprint != theirs.fingerprint) {
    saved_reader.Fail("they are of another dataset" + Difference(mine, theirs));
  }
  TUTTI_RETURN_IF_ERROR(saved_reader.status());
  for (const auto& [op, version] : mine.versions) {
    const auto found = theirs.versions.find(op);
    if (found == theirs.versions.end()) break;
    if (found->second != version) return OtherStateVersion(op, found->second, version);
  }
  if (mine.versions == theirs.versions) return OkStatus();
  saved_reader.Fail("the versions of their ops are of other ops");
  return saved_reader.status();
}

}  // namespace tutti
