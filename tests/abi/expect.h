/* Checks for test programs in plain C: the first one that fails says where and ends the program. */
#ifndef TESTS_ABI_EXPECT_H_
#define TESTS_ABI_EXPECT_H_

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/tutti.h>

#define EXPECT(condition)                                                      \
  do {                                                                         \
    if (!(condition)) {                                                        \
      fprintf(stderr, "%s:%d: expected %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                 \
    }                                                                          \
  } while (0)

/* The call succeeds. */
#define EXPECT_OK(call) expect_status((call), TUTTI_OK, "", #call, __FILE__, __LINE__)
/* The call fails with this code, and its message holds `part`. */
#define EXPECT_ERROR(call, code, part) \
  expect_status((call), (code), (part), #call, __FILE__, __LINE__)

static inline void expect_status(tutti_status *status, tutti_code code, const char *part,
                                 const char *call, const char *file, int line) {
  const tutti_code found = tutti_status_get_code(status);
  const char *message = tutti_status_get_message(status);
  if (found != code || strstr(message, part) == NULL) {
    fprintf(stderr, "%s:%d: %s: expected %s \"%s\", got %s \"%s\"\n", file, line, call,
            tutti_code_get_name(code), part, tutti_code_get_name(found), message);
    exit(1);
  }
  tutti_status_release(status);
}

#endif /* TESTS_ABI_EXPECT_H_ */
