// PortReservation: loopback ports that belong to one job for as long as it lives.
//
// Picking a free port and closing it again leaves a gap in which another process may get it from
// the ephemeral range. So each port stays bound here, with SO_REUSEADDR and without listen(). Linux
// (inet_csk_get_port, __inet_hash_connect) then behaves as we need:
//   - a bind to port 0 and a connect() never pick a port that is bound, whatever the options;
//   - a bind to this very port by a socket with SO_REUSEADDR succeeds, because both have it and
//     ours does not listen: that is the worker's server, gRPC's too without SO_REUSEPORT;
//   - a bind to it by a socket without SO_REUSEADDR fails;
//   - a second server on it fails, because the first one listens.
// port_reservation_test.cc proves each of these.

#ifndef TUTTI_CAPI_TOOL_PORT_RESERVATION_H_
#define TUTTI_CAPI_TOOL_PORT_RESERVATION_H_

#include <string>
#include <vector>

#include "capi/tool/owned_fd.h"

namespace tutti::tool {

class PortReservation {
 public:
  // `count` different ports of 127.0.0.1. On failure false and `error` says why.
  static bool Make(int count, PortReservation* reservation, std::string* error);

  const std::vector<int>& ports() const { return ports_; }

 private:
  std::vector<OwnedFd> sockets_;
  std::vector<int> ports_;
};

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_PORT_RESERVATION_H_
