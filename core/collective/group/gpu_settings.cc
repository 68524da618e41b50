#include "core/collective/group/gpu_settings.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <cstring>

#include "core/base/text.h"
#include "core/cluster/job/cluster.h"

namespace tutti {

std::string InterfaceOf(std::string_view address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string_view::npos) return "";
  std::string host(address.substr(0, colon));
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  in_addr v4 = {};
  in6_addr v6 = {};
  const bool is_v4 = inet_pton(AF_INET, host.c_str(), &v4) == 1;
  if (!is_v4 && inet_pton(AF_INET6, host.c_str(), &v6) != 1) return "";
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return "";
  std::string name;
  for (const ifaddrs* each = all; each != nullptr && name.empty(); each = each->ifa_next) {
    if (each->ifa_addr == nullptr) continue;
    if (is_v4 && each->ifa_addr->sa_family == AF_INET) {
      sockaddr_in own = {};
      std::memcpy(&own, each->ifa_addr, sizeof(own));
      if (own.sin_addr.s_addr == v4.s_addr) name = each->ifa_name;
    } else if (!is_v4 && each->ifa_addr->sa_family == AF_INET6) {
      sockaddr_in6 own = {};
      std::memcpy(&own, each->ifa_addr, sizeof(own));
      if (std::memcmp(&own.sin6_addr, &v6, sizeof(v6)) == 0) name = each->ifa_name;
    }
  }
  freeifaddrs(all);
  return name;
}

GpuCollectivesSettings GpuSettingsOf(const Cluster& cluster) {
  GpuCollectivesSettings settings;
  settings.network_interface = InterfaceOf(cluster.info(cluster.worker()).tcp_address);
  if (cluster.secret().empty()) return settings;
  for (const uint8_t byte : cluster.secret().DeriveKey("nccl")) {
    settings.encryption_key += Format("{:02x}", byte);
  }
  return settings;
}

}  // namespace tutti
