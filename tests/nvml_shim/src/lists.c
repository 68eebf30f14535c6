/* Calls that fill lists: field values, processes, sample buffers, retired pages. */
#include "shim.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- field values ---- */

struct field_value {
    uint32_t field, scope;
    int64_t timestamp, latency;
    int type, answer;
    union value value;
};
_Static_assert(sizeof(struct field_value) == 40, "nvmlFieldValue_t");

API nvml_return nvmlDeviceGetFieldValues(device_t device, int count, struct field_value *values) {
    struct call call;
    nvml_return answer = enter(&call, "nvmlDeviceGetFieldValues", device, "%s", "-");
    if (answer != SUCCESS) return answer;
    if (count < 1 || !values) return INVALID_ARGUMENT;
    double time = now();
    for (int place = 0; place < count; place++) {
        struct field_value *value = &values[place];
        snprintf(call.arguments, sizeof call.arguments, value->scope ? "%u/%u" : "%u", value->field, value->scope);
        if (!value->scope && !find(&call, "-")) snprintf(call.arguments, sizeof call.arguments, "%u/0", value->field);
        value->timestamp = (int64_t)unix_microseconds(time);
        value->latency = 5;
        value->answer = field_fault(&call);
        if (value->answer == SUCCESS) value->answer = recorded(&call, "-");
        if (value->answer != SUCCESS) {
            /* A failed field's value is whatever was there; a reader must not look at it. */
            value->type = VALUE_ULLONG;
            value->value.ull = 0xDEADBEEFDEADBEEF;
            continue;
        }
        const struct answer *found = find(&call, "-");
        memset(&value->value, 0xA5, sizeof value->value);
        value->type = found->type;
        union value given = value_at(found, time);
        switch (found->type) { /* only the member that the type names is written */
        case VALUE_UINT: value->value.ui = given.ui; break;
        case VALUE_INT: value->value.si = given.si; break;
        case VALUE_USHORT: value->value.us = given.us; break;
        default: value->value = given; break;
        }
    }
    return SUCCESS;
}

/* ---- processes ---- */

static nvml_return entry(struct call *call, unsigned place, const char *field, unsigned long long *value) {
    struct call one = *call;
    snprintf(one.arguments, sizeof one.arguments, "#%u", place);
    return wide_of(&one, field, value);
}

static nvml_return list_length(struct call *call, unsigned *length) {
    *length = 0;
    return wants_empty(call) ? SUCCESS : unsigned_of(call, "count", length);
}

/* The struct grew under the same symbol in some drivers: version 1 is { pid, memory }, versions 2 and 3 add the MIG instances,
 * and some builds of version 3 add protected memory. The page's stride overrides what the symbol says. */
static nvml_return processes(device_t device, const char *function, size_t stride, unsigned *count, char *entries) {
    struct call call;
    nvml_return answer = enter(&call, function, device, "%s", "-");
    if (answer != SUCCESS) return answer;
    if (!count) return INVALID_ARGUMENT;
    if (control->process_stride) stride = control->process_stride;
    /* One list of a kind is recorded, under the newest name. */
    char newest[64];
    snprintf(newest, sizeof newest, "%.*s_v3", (int)strcspn(function, "_"), function);
    if (!find(&call, "-") && !find(&call, "count")) call.function = newest;
    unsigned length;
    answer = list_length(&call, &length);
    if (answer != SUCCESS) return answer;
    unsigned room = *count;
    *count = length;
    if (length > room || (length && !entries)) return INSUFFICIENT_SIZE;
    for (unsigned place = 0; place < length; place++) {
        unsigned long long pid = 0, memory = ~0ull, gpu = ~0u, compute = ~0u;
        (void)(entry(&call, place, "pid", &pid) || entry(&call, place, "usedGpuMemory", &memory));
        entry(&call, place, "gpuInstanceId", &gpu), entry(&call, place, "computeInstanceId", &compute);
        struct {
            unsigned pid;
            unsigned long long memory;
            unsigned gpu, compute;
            unsigned long long guarded;
        } full = {(unsigned)pid, memory, (unsigned)gpu, (unsigned)compute, 0};
        char *target = entries + place * stride;
        memset(target, 0, stride);
        memcpy(target, &full, stride < sizeof full ? stride : sizeof full);
    }
    return SUCCESS;
}

#define PROCESSES(name, stride)                                                                                        \
    API nvml_return name(device_t device, unsigned *count, void *entries) {                                            \
        return processes(device, #name, stride, count, entries);                                                       \
    }
PROCESSES(nvmlDeviceGetComputeRunningProcesses, 16)
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2, 24)
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, 24)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses, 16)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2, 24)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, 24)
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v2, 24)
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3, 24)

struct process_sample {
    unsigned pid;
    unsigned long long time;
    unsigned sm, memory, encoder, decoder;
};
struct process_sample_v1 {
    unsigned long long time;
    unsigned pid, sm, memory, encoder, decoder, jpeg, ofa;
};
struct process_samples {
    unsigned version, count;
    unsigned long long last_seen;
    struct process_sample_v1 *entries;
};
_Static_assert(sizeof(struct process_sample) == 32, "nvmlProcessUtilizationSample_t");
_Static_assert(sizeof(struct process_sample_v1) == 40, "nvmlProcessUtilizationInfo_v1_t");
_Static_assert(sizeof(struct process_samples) == 24, "nvmlProcessesUtilizationInfo_v1_t");

/* The driver takes a sample of each process every second. */
static nvml_return process_sample(struct call *call, unsigned place, unsigned long long time,
                                  struct process_sample_v1 *sample) {
    unsigned long long values[7] = {0};
    static const char *const fields[] = {"pid", "smUtil", "memUtil", "encUtil", "decUtil", "jpgUtil", "ofaUtil"};
    for (size_t field = 0; field < COUNT_OF(fields); field++) entry(call, place, fields[field], &values[field]);
    *sample = (struct process_sample_v1){time, (unsigned)values[0], (unsigned)values[1], (unsigned)values[2],
                                         (unsigned)values[3], (unsigned)values[4], (unsigned)values[5], (unsigned)values[6]};
    return SUCCESS;
}

/* How many there are since a time; none makes drivers answer NOT_FOUND, or SUCCESS with a count of 0. */
static nvml_return new_samples(struct call *call, unsigned long long last_seen, unsigned *length,
                               unsigned long long *time) {
    nvml_return answer = list_length(call, length);
    if (answer != SUCCESS) return answer;
    /* Where the recording's time stands still every call finds a fresh sample: what was told once is not told again. */
    *time = isnan(control->fixed) ? unix_microseconds(floor(now())) : wall_microseconds();
    if (*length && *time <= last_seen) return NOT_FOUND;
    return SUCCESS;
}

API nvml_return nvmlDeviceGetProcessUtilization(device_t device, struct process_sample *entries, unsigned *count,
                                                unsigned long long last_seen) {
    struct call call;
    unsigned length;
    unsigned long long time;
    nvml_return answer = enter(&call, "nvmlDeviceGetProcessUtilization", device, "%s", "-");
    if (answer == SUCCESS) answer = count ? new_samples(&call, last_seen, &length, &time) : INVALID_ARGUMENT;
    if (answer != SUCCESS) return answer;
    unsigned room = *count;
    *count = length;
    if (length > room || (length && !entries)) return INSUFFICIENT_SIZE;
    for (unsigned place = 0; place < length; place++) {
        struct process_sample_v1 one;
        process_sample(&call, place, time, &one);
        entries[place] = (struct process_sample){one.pid, one.time, one.sm, one.memory, one.encoder, one.decoder};
    }
    return SUCCESS;
}

API nvml_return nvmlDeviceGetProcessesUtilizationInfo(device_t device, struct process_samples *info) {
    struct call call;
    unsigned length;
    unsigned long long time;
    nvml_return answer = enter(&call, "nvmlDeviceGetProcessesUtilizationInfo", device, "%s", "-");
    if (answer != SUCCESS) return answer;
    if (!info) return INVALID_ARGUMENT;
    if (info->version != 0x01000018) return ARGUMENT_VERSION_MISMATCH;
    call.function = "nvmlDeviceGetProcessUtilization";
    answer = new_samples(&call, info->last_seen, &length, &time);
    if (answer != SUCCESS) return answer;
    unsigned room = info->count;
    info->count = length;
    if (length > room || (length && !info->entries)) return INSUFFICIENT_SIZE;
    for (unsigned place = 0; place < length; place++) process_sample(&call, place, time, &info->entries[place]);
    return SUCCESS;
}

/* ---- sample buffers ---- */

struct sample {
    unsigned long long time;
    union value value;
};

/* A ring of the last readings, one each interval. Asked without room for them, a driver tells the ring's size. */
API nvml_return nvmlDeviceGetSamples(device_t device, unsigned type, unsigned long long last_seen, int *value_type,
                                     unsigned *count, struct sample *samples) {
    struct call call;
    nvml_return answer = enter(&call, "nvmlDeviceGetSamples", device, "%u", type);
    if (answer != SUCCESS) return answer;
    if (!value_type || !count) return INVALID_ARGUMENT;
    answer = recorded(&call, "value");
    if (answer != SUCCESS) return answer;
    const struct answer *value = find(&call, "value"), *interval = find(&call, "interval");
    unsigned size = 0;
    answer = unsigned_of(&call, "count", &size);
    if (answer != SUCCESS || !interval) return answer ? answer : NOT_SUPPORTED;
    if (wants_empty(&call)) return NOT_FOUND;
    double step = number_at(interval, 0), newest = floor(now() / step);
    *value_type = value->type;
    if (!samples) {
        *count = size;
        return SUCCESS;
    }
    unsigned room = *count, filled = 0;
    for (double number = newest - size + 1 > 0 ? newest - size + 1 : 0; number <= newest && filled < room; number++) {
        unsigned long long time = unix_microseconds(number * step);
        if (time > last_seen) samples[filled++] = (struct sample){time, value_at(value, number * step)};
    }
    *count = filled;
    return filled ? SUCCESS : NOT_FOUND;
}

/* ---- retired pages ---- */

static nvml_return retired(device_t device, const char *function, unsigned cause, unsigned *count,
                           unsigned long long *addresses, unsigned long long *times) {
    struct call call;
    nvml_return answer = enter(&call, function, device, "%u", cause);
    if (answer != SUCCESS) return answer;
    if (!count) return INVALID_ARGUMENT;
    call.function = "nvmlDeviceGetRetiredPages_v2";
    unsigned length = 0, room = *count;
    answer = unsigned_of(&call, "count", &length);
    if (answer != SUCCESS) return answer;
    *count = length;
    if (length > room || (length && !addresses)) return INSUFFICIENT_SIZE;
    for (unsigned place = 0; place < length; place++) {
        addresses[place] = 0x1000ull * (0x40 + cause * 0x1000 + place);
        if (times) times[place] = 1700000000ull + place * 86400;
    }
    return SUCCESS;
}
API nvml_return nvmlDeviceGetRetiredPages(device_t device, unsigned cause, unsigned *count,
                                          unsigned long long *addresses) {
    return retired(device, "nvmlDeviceGetRetiredPages", cause, count, addresses, NULL);
}
API nvml_return nvmlDeviceGetRetiredPages_v2(device_t device, unsigned cause, unsigned *count,
                                             unsigned long long *addresses, unsigned long long *times) {
    return retired(device, "nvmlDeviceGetRetiredPages_v2", cause, count, addresses, times);
}
