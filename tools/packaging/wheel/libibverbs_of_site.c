// A wheel's libibverbs.so.1: hands each call on to that of this machine, whose drivers fit no other. Without one
// there are no devices, and then only the list of them is asked for.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stddef.h>

#undef ibv_query_port

static void* library;

__attribute__((constructor)) static void Load(void) {
  library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
}

#define REAL(name) ((__typeof__(&name))dlvsym(library, #name, VERSION_##name))

struct ibv_device** ibv_get_device_list(int* count) {
  static struct ibv_device* none[1];
  if (library != NULL) return REAL(ibv_get_device_list)(count);
  if (count != NULL) *count = 0;
  return none;
}
void ibv_free_device_list(struct ibv_device** list) {
  if (library != NULL) REAL(ibv_free_device_list)(list);
}
const char* ibv_get_device_name(struct ibv_device* device) {
  return REAL(ibv_get_device_name)(device);
}
const char* ibv_node_type_str(enum ibv_node_type type) { return REAL(ibv_node_type_str)(type); }
struct ibv_context* ibv_open_device(struct ibv_device* device) {
  return REAL(ibv_open_device)(device);
}
int ibv_close_device(struct ibv_context* context) { return REAL(ibv_close_device)(context); }
int ibv_query_device(struct ibv_context* context, struct ibv_device_attr* attributes) {
  return REAL(ibv_query_device)(context, attributes);
}
int ibv_query_port(struct ibv_context* context, uint8_t port,
                   struct _compat_ibv_port_attr* attributes) {
  return REAL(ibv_query_port)(context, port, attributes);
}
int ibv_query_gid(struct ibv_context* context, uint8_t port, int index, union ibv_gid* gid) {
  return REAL(ibv_query_gid)(context, port, index, gid);
}
