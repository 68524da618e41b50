/* Prints the version of the library that was found, and uses it once. */
#include <stdio.h>
#include <tutti/tutti.h>

int main(void) {
  const int64_t dims[] = {2};
  tutti_tensor *tensor = NULL;
  tutti_status *status = tutti_tensor_create(NULL, TUTTI_DTYPE_FLOAT32, 1, dims, NULL, &tensor);
  if (status != NULL) {
    fprintf(stderr, "%s\n", tutti_status_get_message(status));
    tutti_status_release(status);
    return 1;
  }
  tutti_tensor_release(tensor);
  printf("tutti %s\n", tutti_api_version_string());
  return 0;
}
