// `tutti doctor`, the network: which addresses this machine has, and which of them others use.

#include <fmt/format.h>

#include <algorithm>

#include "capi/tool/doctor_checks.h"
#include "capi/tool/network_addresses.h"

namespace tutti::tool {
namespace {

// What can be said about the way to `coordinator`; one line, and `fact`.
std::string CheckCoordinator(const std::string& coordinator, Json* fact, DoctorReport* report) {
  *fact = {{"coordinator", coordinator}, {"advertised", nullptr}};
  std::string error;
  const std::vector<SocketAddress> found = Resolve(coordinator, &error);
  if (found.empty()) {
    report->AddProblem(fmt::format("coordinator: {}", error),
                       "give --coordinator the address that worker 0 has in the cluster spec");
    return fmt::format("towards {}: unknown", coordinator);
  }
  for (const SocketAddress& there : found) {
    const auto here = LocalAddressTowards(there, &error);
    if (!here) continue;
    (*fact)["advertised"] = here->Host();
    return fmt::format("towards {} this machine is {}{}", coordinator, here->Host(),
                       here->IsLoopback() ? " (loopback: only this machine reaches it)" : "");
  }
  report->AddProblem(
      fmt::format("no route leads to the coordinator {} ({}): {}", coordinator, found[0].Host(),
                  error),
      "compare the routes (ip route) and the interfaces above with the cluster spec");
  return fmt::format("towards {}: no route", coordinator);
}

}  // namespace

void CheckNetwork(const std::string& coordinator, DoctorReport* report) {
  Json facts = {{"interfaces", Json::array()}};
  std::vector<std::string> lines;
  bool loopback = false;
  for (const InterfaceAddress& one : InterfaceAddresses()) {
    facts["interfaces"].push_back({{"name", one.interface},
                                   {"address", one.address},
                                   {"loopback", one.loopback},
                                   {"up", one.up}});
    lines.push_back(fmt::format("{} {}{}{}", one.interface, one.address,
                                one.loopback ? " (loopback)" : "", one.up ? "" : " (down)"));
    loopback |= one.loopback && one.up;
  }
  if (lines.empty()) lines.push_back("no interfaces");
  if (!loopback) {
    report->AddProblem("no loopback interface is up, which workers of one machine meet on",
                       "ip link set lo up");
  }
  if (!coordinator.empty()) {
    Json fact;
    lines.push_back(CheckCoordinator(coordinator, &fact, report));
    facts["towards"] = fact;
  }
  report->Add("network", std::move(facts), std::move(lines));
}

}  // namespace tutti::tool
