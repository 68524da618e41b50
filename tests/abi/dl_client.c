/* A client that is not linked with the library: every function resolves, also when its symbols are
 * local to the handle; the runtime shuts down and starts again, before and after a dlclose.
 *
 *   dl_client PATH local|global */
#include <string.h>
#include <tutti/tutti_dl.h>

#define EXPECT(condition)                                                      \
  do {                                                                         \
    if (!(condition)) {                                                        \
      fprintf(stderr, "%s:%d: expected %s\n", __FILE__, __LINE__, #condition); \
      return 1;                                                                \
    }                                                                          \
  } while (0)

/* Counts from 0 to 2 with a dataset of the default runtime, which this starts. */
static int count_to_two(const tutti_dl *tutti) {
  tutti_dataset *dataset = NULL;
  tutti_iterator *iterator = NULL;
  EXPECT(tutti->dataset_create_range(NULL, 0, 3, 1, NULL, &dataset) == NULL);
  EXPECT(tutti->iterator_create(dataset, NULL, NULL, &iterator) == NULL);
  for (int64_t i = 0; i < 3; ++i) {
    tutti_value *value = NULL;
    EXPECT(tutti->iterator_next(iterator, NULL, &value) == NULL && value != NULL);
    const tutti_tensor *tensor = tutti->value_get_leaf_tensor(value, 0);
    EXPECT(*(const int64_t *)tutti->tensor_get_data(tensor) == i);
    tutti->value_release(value);
  }
  tutti->iterator_release(iterator);
  tutti->dataset_release(dataset);
  return 0;
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  const int scope = strcmp(argv[2], "global") == 0 ? RTLD_GLOBAL : RTLD_LOCAL;
  char error[512] = "";
  tutti_dl tutti;
  EXPECT(tutti_dl_open("/no/such/libtutti.so", &tutti, error, sizeof(error)) != 0);
  EXPECT(strstr(error, "/no/such/libtutti.so") != NULL && tutti.library == NULL);

  for (int round = 0; round < 2; ++round) {
    if (tutti_dl_open_with_flags(argv[1], RTLD_NOW | scope, &tutti, error, sizeof(error)) != 0) {
      fprintf(stderr, "%s\n", error);
      return 1;
    }
    EXPECT(tutti.api_version() >> 8 == ((TUTTI_VERSION_MAJOR << 8) | TUTTI_VERSION_MINOR));
    for (int start = 0; start < 2; ++start) {
      if (count_to_two(&tutti) != 0) return 1;
      EXPECT(tutti.runtime_shutdown(NULL, NULL) == NULL);
    }
    tutti_dl_close(&tutti);
    EXPECT(tutti.api_version == NULL);
  }
  return 0;
}
