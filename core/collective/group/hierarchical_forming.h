// How a group whose ranks are linked already joins its hosts (hierarchical_transport.h): a segment
// for the ranks of each host, and links between the hosts; of many hosts, between neighbours in a
// tree, and others at first use. In stages, like all forming of groups (group_forming.h): when it
// does not work for somebody, nobody does it.

#ifndef TUTTI_CORE_COLLECTIVE_GROUP_HIERARCHICAL_FORMING_H_
#define TUTTI_CORE_COLLECTIVE_GROUP_HIERARCHICAL_FORMING_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/file_descriptor.h"
#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/collective/hosts/hierarchical_transport.h"
#include "core/collective/hosts/host_layout.h"
#include "core/collective/select/selector.h"
#include "core/collective/shm/shared_window.h"
#include "core/collective/stream/link_connector.h"

namespace tutti {

class Environment;

struct HostsForming {
  Ref<Environment> environment;
  std::string name;  // of the communicator
  int64_t rank = 0;
  int64_t epoch = 1;
  bool spin = false;
  Ref<SharedWindow> window;  // null: tensors are copied
  HostLayout layout;
  std::vector<std::string> descriptions;  // by rank
  std::vector<int64_t> workers;           // by rank
  std::vector<std::string> machines;      // by rank
  std::shared_ptr<const SelectorTable> table;

  // Tells all ranks how a stage went here; why it did not work for somebody, or an empty text.
  std::function<Result<std::string>(std::string_view stage, const Status& own)> tell;
  // To a rank that accepts from this one under the same name; `local`: on the same host.
  std::function<Result<FileDescriptor>(int64_t rank, bool local, std::string_view what)> connect;
  std::function<Result<FileDescriptor>(int64_t rank, std::string_view what)> accept;
  // How these ranks get links to each other at first use; `what` tells them from others.
  std::function<std::unique_ptr<LinkConnector>(std::span<const int64_t> ranks,
                                               std::string_view what)>
      connector;
  std::function<CallOptions()> soon;  // for what should take no time
};

// Whether the table has a use for joined hosts, and the ranks are spread over some.
bool WantsHosts(const HostLayout& layout, const SelectorTable& table, int64_t size);

// Takes *flat where it works for all. Otherwise gives null, and *problem says why.
Result<std::unique_ptr<HierarchicalTransport>> JoinHosts(const HostsForming& forming,
                                                         std::unique_ptr<LinkTransport>* flat,
                                                         std::string* problem);

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_GROUP_HIERARCHICAL_FORMING_H_
