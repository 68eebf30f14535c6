/* Initialisation, handles, MIG devices, and what is asked of the system. */
#include "shim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_HANDLES = 8192 };
static struct handle handles[MAX_HANDLES];
static size_t handle_count;
static unsigned initialised;
static uint32_t initialised_generation;

nvml_return check_library(void) {
    if (!initialised) return UNINITIALIZED;
    if (control->driver) return UNINITIALIZED;
    return initialised_generation == control->generation ? SUCCESS : (nvml_return)control->stale;
}

static uint32_t epoch_of(int device, int mig) {
    return mig < 0 ? control->epoch[device] : control->epoch[device] * 4096 + control->mig_epoch[device];
}

nvml_return check_handle(device_t device) {
    uintptr_t offset = (uintptr_t)device - (uintptr_t)handles;
    if (!device || (uintptr_t)device < (uintptr_t)handles || offset % sizeof *handles ||
        offset / sizeof *handles >= handle_count)
        return INVALID_ARGUMENT;
    if (device->generation != control->generation || device->epoch != epoch_of(device->device, device->mig) ||
        control->absent >> device->device & 1)
        return (nvml_return)control->stale;
    return SUCCESS;
}

device_t handle_of(int device, int mig) {
    uint32_t epoch = epoch_of(device, mig);
    for (size_t place = handle_count; place-- > 0;)
        if (handles[place].device == device && handles[place].mig == mig && handles[place].epoch == epoch &&
            handles[place].generation == control->generation)
            return &handles[place];
    if (handle_count == MAX_HANDLES) return NULL;
    handles[handle_count] = (struct handle){control->generation, epoch, device, mig};
    return &handles[handle_count++];
}

int devices_present(void) {
    int count = 0;
    for (int device = 0; device < recorded_devices(); device++) count += !(control->absent >> device & 1);
    return count;
}

int device_at(unsigned index) {
    for (int device = 0; device < recorded_devices(); device++)
        if (!(control->absent >> device & 1) && index-- == 0) return device;
    return -1;
}

static struct call call_for(int device, int mig, const char *function) {
    struct call call = {.function = function, .device = device, .mig = mig, .arguments = "-"};
    snprintf(call.scope, sizeof call.scope, mig < 0 ? "%d" : "%d.%d", device, mig);
    return call;
}

bool mig_is_on(int device) {
    if (control->mig[device]) return control->mig[device] == 2;
    struct call call = call_for(device, -1, "nvmlDeviceGetMigMode");
    const struct answer *answer = find(&call, "current");
    return answer && answer->kind != 'e' && integer_at(answer, now()) == 1;
}

/* ---- initialisation ---- */

API nvml_return nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    struct call call;
    nvml_return answer = enter_uninitialised(&call, "nvmlInitWithFlags");
    if (answer != SUCCESS) return answer;
    if (control->driver) return (nvml_return)control->driver;
    pthread_mutex_lock(&lock);
    answer = load_recording();
    if (answer == SUCCESS) {
        initialised++;
        initialised_generation = control->generation;
        control->initialisations++;
        control->last_process = (uint64_t)getpid();
    }
    pthread_mutex_unlock(&lock);
    return answer;
}
API nvml_return nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
API nvml_return nvmlInit(void) { return nvmlInitWithFlags(0); }

API nvml_return nvmlShutdown(void) {
    struct call call;
    nvml_return answer = enter_uninitialised(&call, "nvmlShutdown");
    if (answer != SUCCESS) return answer;
    if (!initialised) return UNINITIALIZED;
    initialised--;
    return SUCCESS;
}

API const char *nvmlErrorString(nvml_return code) {
    switch (code) {
    case SUCCESS: return "Success";
    case UNINITIALIZED: return "Uninitialized";
    case INVALID_ARGUMENT: return "Invalid Argument";
    case NOT_SUPPORTED: return "Not Supported";
    case 4: return "Insufficient Permissions";
    case NOT_FOUND: return "Not Found";
    case INSUFFICIENT_SIZE: return "Insufficient Size";
    case DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case TIMEOUT: return "Timeout";
    case 13: return "Function Not Found";
    case GPU_IS_LOST: return "GPU is lost";
    case 16: return "GPU requires reset";
    case 18: return "Driver/library version mismatch";
    case MEMORY: return "Insufficient Memory";
    case ARGUMENT_VERSION_MISMATCH: return "Argument version mismatch";
    default: return "Unknown Error";
    }
}

/* ---- the system ---- */

#define SYSTEM_TEXT(name)                                                                                              \
    API nvml_return name(char *buffer, unsigned length) {                                                              \
        struct call call;                                                                                              \
        nvml_return answer = enter_system(&call, #name, "%s", "-");                                                    \
        return answer != SUCCESS ? answer : text_of(&call, "-", buffer, length);                                       \
    }
#define SYSTEM_NUMBER(name)                                                                                            \
    API nvml_return name(int *value) {                                                                                 \
        struct call call;                                                                                              \
        nvml_return answer = enter_system(&call, #name, "%s", "-");                                                    \
        return answer != SUCCESS ? answer : unsigned_of(&call, "-", (unsigned *)value);                                \
    }
SYSTEM_TEXT(nvmlSystemGetDriverVersion)
SYSTEM_TEXT(nvmlSystemGetNVMLVersion)
SYSTEM_NUMBER(nvmlSystemGetCudaDriverVersion)
SYSTEM_NUMBER(nvmlSystemGetCudaDriverVersion_v2)

struct driver_branch {
    unsigned version;
    char branch[80];
};
API nvml_return nvmlSystemGetDriverBranch(struct driver_branch *info, unsigned length) {
    struct call call;
    nvml_return answer = enter_system(&call, "nvmlSystemGetDriverBranch", "%s", "-");
    if (answer != SUCCESS) return answer;
    if (!info || info->version != 0x1000054) return ARGUMENT_VERSION_MISMATCH;
    return text_of(&call, "-", info->branch, length < sizeof info->branch ? length : sizeof info->branch);
}

API nvml_return nvmlDeviceGetCount_v2(unsigned *count) {
    struct call call;
    nvml_return answer = enter_system(&call, "nvmlDeviceGetCount_v2", "%s", "-");
    if (answer != SUCCESS) return answer;
    if (!count) return INVALID_ARGUMENT;
    *count = (unsigned)devices_present();
    return SUCCESS;
}
API nvml_return nvmlDeviceGetCount(unsigned *count) { return nvmlDeviceGetCount_v2(count); }

/* ---- handles ---- */

/* A GPU that fell off the bus gives no handle either: the faults of a device hold for the call that asks for it. */
static nvml_return hand_out(struct call *call, const char *function, int device, int mig, device_t *handle) {
    if (!handle) return INVALID_ARGUMENT;
    device_t found = handle_of(device, mig);
    if (!found) return MEMORY;
    nvml_return answer = enter(call, function, found, "%s", "-");
    if (answer == SUCCESS) *handle = found;
    return answer;
}

API nvml_return nvmlDeviceGetHandleByIndex_v2(unsigned index, device_t *handle) {
    struct call call;
    nvml_return answer = enter_system(&call, "nvmlDeviceGetHandleByIndex_v2", "%u", index);
    if (answer != SUCCESS) return answer;
    int device = device_at(index);
    return device < 0 ? INVALID_ARGUMENT : hand_out(&call, "nvmlDeviceGetHandleByIndex_v2", device, -1, handle);
}
API nvml_return nvmlDeviceGetHandleByIndex(unsigned index, device_t *handle) {
    return nvmlDeviceGetHandleByIndex_v2(index, handle);
}

static bool has_text(int device, int mig, const char *function, const char *field, const char *wanted) {
    struct call call = call_for(device, mig, function);
    char text[128];
    return text_of(&call, field, text, sizeof text) == SUCCESS && !strcasecmp(text, wanted);
}

static nvml_return handle_by(const char *name, const char *getter, const char *field, const char *wanted,
                             device_t *handle) {
    struct call call;
    nvml_return answer = enter_system(&call, name, "%s", "-");
    if (answer != SUCCESS) return answer;
    if (!wanted) return INVALID_ARGUMENT;
    for (int device = 0; device < recorded_devices(); device++) {
        if (control->absent >> device & 1) continue;
        if (has_text(device, -1, getter, field, wanted)) return hand_out(&call, name, device, -1, handle);
        for (int mig = 0; mig_is_on(device) && mig < mig_devices(device); mig++)
            if (has_text(device, mig, getter, field, wanted)) return hand_out(&call, name, device, mig, handle);
    }
    return NOT_FOUND;
}
API nvml_return nvmlDeviceGetHandleByUUID(const char *uuid, device_t *handle) {
    return handle_by("nvmlDeviceGetHandleByUUID", "nvmlDeviceGetUUID", "-", uuid, handle);
}
API nvml_return nvmlDeviceGetHandleBySerial(const char *serial, device_t *handle) {
    return handle_by("nvmlDeviceGetHandleBySerial", "nvmlDeviceGetSerial", "-", serial, handle);
}
API nvml_return nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, device_t *handle) {
    return handle_by("nvmlDeviceGetHandleByPciBusId_v2", "nvmlDeviceGetPciInfo_v3", "busId", bus_id, handle);
}

API nvml_return nvmlDeviceGetIndex(device_t device, unsigned *index) {
    struct call call;
    nvml_return answer = enter(&call, "nvmlDeviceGetIndex", device, "%s", "-");
    if (answer != SUCCESS) return answer;
    if (!index) return INVALID_ARGUMENT;
    if (call.mig >= 0) {
        *index = (unsigned)call.mig;
        return SUCCESS;
    }
    for (*index = 0; device_at(*index) != call.device;) ++*index;
    return SUCCESS;
}

/* ---- MIG ---- */

API nvml_return nvmlDeviceGetMigDeviceHandleByIndex(device_t device, unsigned index, device_t *handle) {
    struct call call;
    nvml_return answer = enter(&call, "nvmlDeviceGetMigDeviceHandleByIndex", device, "%u", index);
    if (answer != SUCCESS) return answer;
    if (call.mig >= 0 || !handle) return INVALID_ARGUMENT;
    if (!mig_is_on(call.device) || index >= (unsigned)mig_devices(call.device)) return NOT_FOUND;
    *handle = handle_of(call.device, (int)index);
    return *handle ? SUCCESS : MEMORY;
}

API nvml_return nvmlDeviceGetDeviceHandleFromMigDeviceHandle(device_t device, device_t *handle) {
    struct call call;
    nvml_return answer = enter(&call, "nvmlDeviceGetDeviceHandleFromMigDeviceHandle", device, "%s", "-");
    if (answer != SUCCESS) return answer;
    if (call.mig < 0 || !handle) return INVALID_ARGUMENT;
    *handle = handle_of(call.device, -1);
    return *handle ? SUCCESS : MEMORY;
}

API nvml_return nvmlDeviceIsMigDeviceHandle(device_t device, unsigned *is_mig) {
    struct call call;
    nvml_return answer = enter(&call, "nvmlDeviceIsMigDeviceHandle", device, "%s", "-");
    if (answer != SUCCESS) return answer;
    if (!is_mig) return INVALID_ARGUMENT;
    *is_mig = call.mig >= 0;
    return SUCCESS;
}
