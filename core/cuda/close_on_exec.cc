// The port that listens for an id's sake. NCCL opens it so that child processes inherit it: one
// that outlives this process would hold the port, and take connections that nobody answers. Its
// address stands in the id, behind NCCL's own eight bytes, and by that the socket is found among
// the process's.
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdlib>
#include <cstring>
#include <memory>

#include "core/cuda/communicator.h"

namespace tutti::cuda {
namespace {

constexpr size_t kAddressInId = 8;

bool IsOfId(const sockaddr_storage& address, const nccl::UniqueId& id) {
  sa_family_t family;
  std::memcpy(&family, id.bytes + kAddressInId, sizeof(family));
  if (family != address.ss_family) return false;
  if (family == AF_INET) {
    sockaddr_in own, of_id;
    std::memcpy(&own, &address, sizeof(own));
    std::memcpy(&of_id, id.bytes + kAddressInId, sizeof(of_id));
    return own.sin_port == of_id.sin_port && own.sin_addr.s_addr == of_id.sin_addr.s_addr;
  }
  if (family == AF_INET6) {
    sockaddr_in6 own, of_id;
    std::memcpy(&own, &address, sizeof(own));
    std::memcpy(&of_id, id.bytes + kAddressInId, sizeof(of_id));
    return own.sin6_port == of_id.sin6_port &&
           std::memcmp(&own.sin6_addr, &of_id.sin6_addr, sizeof(own.sin6_addr)) == 0;
  }
  return false;
}

}  // namespace

void CloseListenerOnExec(const nccl::UniqueId& id) {
  const std::unique_ptr<DIR, int (*)(DIR*)> files(opendir("/proc/self/fd"), closedir);
  if (files == nullptr) return;
  while (const dirent* const entry = readdir(files.get())) {
    if (entry->d_name[0] == '.') continue;
    const int file = std::atoi(entry->d_name);
    int listens = 0;
    socklen_t length = sizeof(listens);
    if (getsockopt(file, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) != 0 || listens == 0) {
      continue;
    }
    sockaddr_storage address = {};
    length = sizeof(address);
    if (getsockname(file, reinterpret_cast<sockaddr*>(&address), &length) != 0 ||
        !IsOfId(address, id)) {
      continue;
    }
    const int flags = fcntl(file, F_GETFD);
    if (flags >= 0) fcntl(file, F_SETFD, flags | FD_CLOEXEC);
  }
}

}  // namespace tutti::cuda
