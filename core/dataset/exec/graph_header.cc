#include "core/dataset/exec/graph_header.h"

#include <cstdint>
#include <limits>
#include <map>
#include <utility>

#include "core/base/error.h"
#include "core/dataset/exec/iterator_state.h"
#include "core/dataset/graph/graph_fingerprint.h"
#include "core/dataset/graph/graph_walk.h"
#include "core/dataset/graph/node.h"

namespace tutti {
namespace {

struct Header {
  std::string_view fingerprint;
  std::map<std::string_view, int64_t> versions;  // by the ops' names
};

Header Read(std::string_view bytes, StateReader* reader) {
  Header header;
  header.fingerprint = reader->Bytes();
  const int64_t count = reader->IntIn(0, static_cast<int64_t>(bytes.size()));
  for (int64_t i = 0; i < count && reader->ok(); ++i) {
    const std::string_view op = reader->Bytes();
    header.versions[op] = reader->IntIn(0, std::numeric_limits<int64_t>::max());
  }
  if (reader->ok() && !reader->at_end()) reader->Fail("the versions of their ops do not end");
  return header;
}

}  // namespace

Result<std::string> GraphHeader(const Node& root) {
  TUTTI_ASSIGN_OR_RETURN(const std::string fingerprint, GraphFingerprint(root));
  std::map<std::string_view, int64_t> versions;
  for (const Node* node : InputsFirst(root)) {
    versions[node->op().name] = node->op().state_version;
  }
  StateWriter writer;
  writer.Bytes(fingerprint);
  writer.Int(static_cast<int64_t>(versions.size()));
  for (const auto& [op, version] : versions) {
    writer.Bytes(op);
    writer.Int(version);
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
    saved_reader.Fail("they are of another dataset");
  }
  TUTTI_RETURN_IF_ERROR(saved_reader.status());
  for (const auto& [op, version] : mine.versions) {
    const auto found = theirs.versions.find(op);
    if (found == theirs.versions.end()) continue;
    if (found->second != version) return OtherStateVersion(op, found->second, version);
  }
  saved_reader.Fail("the versions of their ops are of other ops");
  return saved_reader.status();
}

}  // namespace tutti
