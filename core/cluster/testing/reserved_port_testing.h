// A port of loopback for a test that starts workers, in this process or in others.

#ifndef TUTTI_CORE_CLUSTER_TESTING_RESERVED_PORT_TESTING_H_
#define TUTTI_CORE_CLUSTER_TESTING_RESERVED_PORT_TESTING_H_

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <utility>
#include <vector>

#include "core/base/file_descriptor.h"

namespace tutti {

// The port stays bound until this process ends, so that no other test gets it in between; a server
// that sets SO_REUSEADDR can listen on it all the same, because this socket does not listen.
inline int ReservePort() {
  static std::vector<FileDescriptor>* const reserved = new std::vector<FileDescriptor>();
  FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  EXPECT_EQ(::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  EXPECT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
  EXPECT_EQ(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
  reserved->push_back(std::move(socket));
  return ntohs(address.sin_port);
}

}  // namespace tutti

#endif  // TUTTI_CORE_CLUSTER_TESTING_RESERVED_PORT_TESTING_H_
