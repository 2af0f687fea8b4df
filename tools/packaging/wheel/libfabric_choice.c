// A wheel's libfabric.so.1: hands each call on to the libfabric that is chosen when the library is loaded.
//
// INVOKER_LIBFABRIC names it: a file, a folder with a libfabric.so.1, or "bundled" for the wheel's own. Without it
// the newest one is taken of the wheel's own and those of this machine: in LD_LIBRARY_PATH, where AWS and HPE put
// theirs, and in the usual folders.
//
// BUNDLED is the file name of the wheel's own, in this library's folder, and BUNDLED_NUMBER the end of the name
// that it was built with: libfabric.so.1.NUMBER. VERSION_fi_... are the symbols' versions.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <rdma/fabric.h>
#include <rdma/fi_errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int (*real_getinfo)(uint32_t, const char*, const char*, uint64_t, const struct fi_info*,
                           struct fi_info**);
static void (*real_freeinfo)(struct fi_info*);
static struct fi_info* (*real_dupinfo)(const struct fi_info*);
static int (*real_fabric)(struct fi_fabric_attr*, struct fid_fabric**, void*);
static uint32_t (*real_version)(void);
static const char* (*real_strerror)(int);
static char* (*real_tostr)(const void*, enum fi_type);

// 28000 for libfabric.so.1.28.0; later ones have greater numbers. 0: unknown.
static long NumberOf(const char* end) {
  int minor = 0;
  int patch = 0;
  return sscanf(end, "%d.%d", &minor, &patch) == 2 ? minor * 1000L + patch : 0;
}

// Looks at a folder, or at all that match a pattern, for a newer one than `number`.
static void Consider(const char* folders, long* number, char path[PATH_MAX]) {
  char pattern[PATH_MAX];
  glob_t found;
  if (snprintf(pattern, sizeof(pattern), "%s/libfabric.so.1", folders) >= PATH_MAX) return;
  if (glob(pattern, 0, NULL, &found) != 0) return;
  for (size_t i = 0; i < found.gl_pathc; ++i) {
    char target[PATH_MAX];
    if (realpath(found.gl_pathv[i], target) == NULL) continue;
    const char* end = strstr(target, "libfabric.so.1.");
    const long each = end == NULL ? 0 : NumberOf(end + strlen("libfabric.so.1."));
    if (each <= *number) continue;
    *number = each;
    strcpy(path, target);
  }
  globfree(&found);
}

static void FindNewest(char path[PATH_MAX]) {
  static const char* const kFolders[] = {
      "/opt/amazon/efa/lib",       "/opt/amazon/efa/lib64", "/opt/cray/libfabric/*/lib64",
      "/usr/local/lib",            "/usr/local/lib64",      "/usr/lib64",
      "/usr/lib/x86_64-linux-gnu", "/usr/lib"};
  long number = NumberOf(BUNDLED_NUMBER);
  const char* variable = getenv("LD_LIBRARY_PATH");
  char* list = variable == NULL ? NULL : strdup(variable);
  char* rest = list;
  for (char* each; (each = strsep(&rest, ":")) != NULL;) {
    if (*each != '\0') Consider(each, &number, path);
  }
  free(list);
  for (size_t i = 0; i < sizeof(kFolders) / sizeof(kFolders[0]); ++i) {
    Consider(kFolders[i], &number, path);
  }
}

static void FindBundled(char path[PATH_MAX]) {
  Dl_info self;
  const char* name = dladdr((void*)&FindBundled, &self) == 0 ? "" : self.dli_fname;
  const char* slash = strrchr(name, '/');
  const int folder = slash == NULL ? 0 : (int)(slash - name + 1);
  snprintf(path, PATH_MAX, "%.*s%s", folder, name, BUNDLED);
}

static void* Open(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) fprintf(stderr, "invoker: cannot load libfabric: %s\n", dlerror());
  return library;
}

static void* Choose(void) {
  char path[PATH_MAX] = "";
  const char* given = getenv("INVOKER_LIBFABRIC");
  if (given != NULL && *given != '\0' && strcmp(given, "bundled") != 0) {
    struct stat status;
    const bool folder = stat(given, &status) == 0 && S_ISDIR(status.st_mode);
    snprintf(path, sizeof(path), folder ? "%s/libfabric.so.1" : "%s", given);
    return Open(path);
  }
  if (given == NULL || *given == '\0') FindNewest(path);
  void* newest = *path == '\0' ? NULL : Open(path);
  if (newest != NULL) return newest;
  FindBundled(path);
  return Open(path);
}

__attribute__((constructor)) static void Load(void) {
  void* library = Choose();
  if (library == NULL) return;
  *(void**)&real_getinfo = dlvsym(library, "fi_getinfo", VERSION_fi_getinfo);
  *(void**)&real_freeinfo = dlvsym(library, "fi_freeinfo", VERSION_fi_freeinfo);
  *(void**)&real_dupinfo = dlvsym(library, "fi_dupinfo", VERSION_fi_dupinfo);
  *(void**)&real_fabric = dlvsym(library, "fi_fabric", VERSION_fi_fabric);
  *(void**)&real_version = dlvsym(library, "fi_version", VERSION_fi_version);
  *(void**)&real_strerror = dlvsym(library, "fi_strerror", VERSION_fi_strerror);
  *(void**)&real_tostr = dlvsym(library, "fi_tostr", VERSION_fi_tostr);
}

// Without a library there are no fabrics.
int fi_getinfo(uint32_t version, const char* node, const char* service, uint64_t flags,
               const struct fi_info* hints, struct fi_info** info) {
  if (real_getinfo == NULL) return -FI_ENODATA;
  return real_getinfo(version, node, service, flags, hints, info);
}
void fi_freeinfo(struct fi_info* info) {
  if (real_freeinfo != NULL) real_freeinfo(info);
}
// An empty one is what hints are made from.
struct fi_info* fi_dupinfo(const struct fi_info* info) {
  return real_dupinfo == NULL ? NULL : real_dupinfo(info);
}
int fi_fabric(struct fi_fabric_attr* attributes, struct fid_fabric** fabric, void* context) {
  return real_fabric == NULL ? -FI_ENODATA : real_fabric(attributes, fabric, context);
}
uint32_t fi_version(void) { return real_version == NULL ? 0 : real_version(); }
const char* fi_strerror(int error) {
  return real_strerror == NULL ? strerror(error) : real_strerror(error);
}
char* fi_tostr(const void* data, enum fi_type type) {
  static char none[] = "";
  return real_tostr == NULL ? none : real_tostr(data, type);
}
