/* Preloaded into a worker: its TCP connections to 127.0.0.0/8 lead through the proxy that listens
 * on port REDIRECT_CONNECT_PORT of every loopback address. Where a connection was to go stands in
 * the address at which the proxy gets it: 127.77.H.L is port 256 * H + L. */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* The IPv4 address within, also of the form ::ffff:127.0.0.1; 0 for any other. */
static in_addr_t ipv4_of(const struct sockaddr *address, in_port_t *port) {
  if (address->sa_family == AF_INET) {
    const struct sockaddr_in *in = (const struct sockaddr_in *)address;
    *port = ntohs(in->sin_port);
    return ntohl(in->sin_addr.s_addr);
  }
  if (address->sa_family == AF_INET6) {
    const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)address;
    *port = ntohs(in->sin6_port);
    in_addr_t inner = 0;
    if (!IN6_IS_ADDR_V4MAPPED(&in->sin6_addr)) return 0;
    memcpy(&inner, in->sin6_addr.s6_addr + 12, sizeof(inner));
    return ntohl(inner);
  }
  return 0;
}

int connect(int descriptor, const struct sockaddr *address, socklen_t length) {
  int (*next)(int, const struct sockaddr *, socklen_t) = NULL;
  *(void **)&next = dlsym(RTLD_NEXT, "connect");
  const char *proxy = getenv("REDIRECT_CONNECT_PORT");
  in_port_t port = 0;
  int type = 0;
  socklen_t type_length = sizeof(type);
  getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &type, &type_length);
  if (proxy == NULL || type != SOCK_STREAM || ipv4_of(address, &port) >> 24 != 127) {
    return next(descriptor, address, length);
  }
  const in_addr_t to = htonl(0x7f4d0000u | port);
  struct sockaddr_storage redirected = {0};
  memcpy(&redirected, address, length);
  if (address->sa_family == AF_INET) {
    struct sockaddr_in *in = (struct sockaddr_in *)&redirected;
    in->sin_addr.s_addr = to;
    in->sin_port = htons((in_port_t)atoi(proxy));
  } else {
    struct sockaddr_in6 *in = (struct sockaddr_in6 *)&redirected;
    memcpy(in->sin6_addr.s6_addr + 12, &to, sizeof(to));
    in->sin6_port = htons((in_port_t)atoi(proxy));
  }
  return next(descriptor, (struct sockaddr *)&redirected, length);
}
