#include "capi/tool/port_reservation.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace tutti::tool {

bool PortReservation::Make(int count, PortReservation* reservation, std::string* error) {
  PortReservation made;
  for (int i = 0; i < count; ++i) {
    OwnedFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof(address);
    const int on = 1;
    if (!fd.valid() ||
        setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
        bind(fd.get(), generic, size) != 0 || getsockname(fd.get(), generic, &size) != 0) {
      *error = fmt::format("cannot reserve port {} of {} on 127.0.0.1: {}", i + 1, count,
                           std::strerror(errno));
      return false;
    }
    made.ports_.push_back(ntohs(address.sin_port));
    made.sockets_.push_back(std::move(fd));
  }
  *reservation = std::move(made);
  return true;
}

}  // namespace tutti::tool
