/* A CUDA driver that has nothing to offer: what a machine with a broken or missing GPU tells the CUDA runtime.
 *
 * FAKE_STATUS   what cuInit and everything else returns (100: no device, 803: versions of driver and library differ)
 * FAKE_VERSION  what cuDriverGetVersion says (12020 is CUDA 12.2)
 *
 * It never claims success: the runtime would go on to call what is not here. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

static int setting(const char *name, int otherwise) {
    const char *text = getenv(name);
    return text ? atoi(text) : otherwise;
}

static int refuse(void) { return setting("FAKE_STATUS", 100); }

int cuInit(unsigned flags) { (void)flags; return refuse(); }

int cuDriverGetVersion(int *version) { *version = setting("FAKE_VERSION", 13000); return 0; }

int cuDeviceGetCount(int *count) { *count = 0; return refuse(); }

int cuGetErrorString(int error, const char **text) { (void)error; *text = "fake"; return 0; }

int cuGetErrorName(int error, const char **text) { (void)error; *text = "FAKE"; return 0; }

int cuGetExportTable(const void **table, const void *id) { (void)id; *table = 0; return refuse(); }

int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status) {
    (void)version; (void)flags;
    void *self = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    void *found = self ? dlsym(self, name) : 0;
    *function = found ? found : (void *)refuse;
    if (status) *status = 0;
    return 0;
}

int cuGetProcAddress(const char *name, void **function, int version, uint64_t flags) {
    return cuGetProcAddress_v2(name, function, version, flags, 0);
}
