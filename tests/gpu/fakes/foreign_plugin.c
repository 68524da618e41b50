/* A plugin of the next major version, which must not be asked for anything else. */
#include <stdlib.h>
#include <tutti/plugin.h>

uint32_t tutti_plugin_abi_version(void);
tutti_status *tutti_plugin_open(const tutti_plugin_host *host, const tutti_plugin_api **out_api,
                                tutti_plugin **out_plugin);

__attribute__((visibility("default"))) uint32_t tutti_plugin_abi_version(void) {
  return TUTTI_PLUGIN_ABI_VERSION + (1 << 16);
}

__attribute__((visibility("default"))) tutti_status *tutti_plugin_open(
    const tutti_plugin_host *host, const tutti_plugin_api **out_api, tutti_plugin **out_plugin) {
  (void)host;
  (void)out_api;
  (void)out_plugin;
  abort();
}
