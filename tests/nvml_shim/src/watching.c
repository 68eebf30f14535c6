/* What is watched over time: events (XIDs among them) and the performance monitors (GPM). */
#include "shim.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* ---- events ---- */

struct event_set {
    uint64_t next;
    uint32_t generation;
    unsigned long long types[MAX_DEVICES];
};
struct event_data {
    device_t device;
    unsigned long long type, data;
    unsigned gpu_instance, compute_instance;
};
_Static_assert(sizeof(struct event_data) == 32, "nvmlEventData_t");

API nvml_return nvmlEventSetCreate(struct event_set **set) {
    struct call call;
    nvml_return answer = enter_system(&call, "nvmlEventSetCreate", "%s", "-");
    if (answer != SUCCESS) return answer;
    if (!set) return INVALID_ARGUMENT;
    *set = calloc(1, sizeof **set);
    if (!*set) return MEMORY;
    (*set)->next = control->head; /* what was before is not told */
    (*set)->generation = control->generation;
    return SUCCESS;
}

API nvml_return nvmlEventSetFree(struct event_set *set) {
    struct call call;
    nvml_return answer = enter_system(&call, "nvmlEventSetFree", "%s", "-");
    if (answer == SUCCESS) free(set);
    return answer;
}

API nvml_return nvmlDeviceRegisterEvents(device_t device, unsigned long long types, struct event_set *set) {
    struct call call;
    nvml_return answer = enter(&call, "nvmlDeviceRegisterEvents", device, "%s", "-");
    if (answer != SUCCESS) return answer;
    if (!set || call.device < 0 || call.mig >= 0) return INVALID_ARGUMENT;
    struct call supported = call;
    supported.function = "nvmlDeviceGetSupportedEventTypes";
    unsigned long long known = 0;
    answer = wide_of(&supported, "-", &known);
    if (answer != SUCCESS) return answer;
    if (types & ~known) return NOT_SUPPORTED;
    set->types[call.device] |= types;
    return SUCCESS;
}

static bool take(struct event_set *set, struct event_data *data) {
    while (set->next < control->head) {
        if (control->head - set->next > MAX_EVENTS) set->next = control->head - MAX_EVENTS;
        struct event event = control->events[set->next++ % MAX_EVENTS];
        if (event.device >= MAX_DEVICES || !(set->types[event.device] & event.type)) continue;
        *data = (struct event_data){handle_of((int)event.device, -1), event.type, event.data, event.gpu_instance,
                                    event.compute_instance};
        return true;
    }
    return false;
}

API nvml_return nvmlEventSetWait_v2(struct event_set *set, struct event_data *data, unsigned milliseconds) {
    struct call call;
    nvml_return answer = enter_system(&call, "nvmlEventSetWait_v2", "%s", "-");
    if (answer != SUCCESS) return answer;
    if (!set || !data) return INVALID_ARGUMENT;
    struct timespec clock;
    clock_gettime(CLOCK_MONOTONIC, &clock);
    double end = (double)clock.tv_sec + (double)clock.tv_nsec / 1e9 + milliseconds / 1e3;
    for (;;) {
        pthread_mutex_lock(&lock);
        refresh();
        bool current = set->generation == control->generation && !control->driver;
        bool found = current && take(set, data);
        pthread_mutex_unlock(&lock);
        if (!current) return (nvml_return)control->stale;
        if (found) return SUCCESS;
        clock_gettime(CLOCK_MONOTONIC, &clock);
        double left = end - ((double)clock.tv_sec + (double)clock.tv_nsec / 1e9);
        if (left <= 0) return TIMEOUT;
        usleep(left < 0.005 ? (useconds_t)(left * 1e6) + 1 : 5000);
    }
}
API nvml_return nvmlEventSetWait(struct event_set *set, struct event_data *data, unsigned milliseconds) {
    return nvmlEventSetWait_v2(set, data, milliseconds);
}

/* ---- performance monitors ---- */

enum { MAX_METRICS = 477 };
struct gpm_sample {
    double time;
    int device, mig;
    bool filled;
};
struct gpm_metric {
    unsigned id;
    int answer;
    double value;
    const char *short_name, *long_name, *unit;
};
struct gpm_metrics {
    unsigned version, count;
    struct gpm_sample *first, *second;
    struct gpm_metric metrics[MAX_METRICS];
};
_Static_assert(sizeof(struct gpm_metric) == 40, "nvmlGpmMetric_t");
struct gpm_support {
    unsigned version, supported;
};

API nvml_return nvmlGpmQueryDeviceSupport(device_t device, struct gpm_support *support) {
    struct call call;
    nvml_return answer = enter(&call, "nvmlGpmQueryDeviceSupport", device, "%s", "-");
    if (answer != SUCCESS) return answer;
    if (!support || support->version != 1) return ARGUMENT_VERSION_MISMATCH;
    return unsigned_of(&call, "-", &support->supported);
}

API nvml_return nvmlGpmSampleAlloc(struct gpm_sample **sample) {
    struct call call;
    nvml_return answer = enter_system(&call, "nvmlGpmSampleAlloc", "%s", "-");
    if (answer != SUCCESS) return answer;
    if (!sample) return INVALID_ARGUMENT;
    *sample = calloc(1, sizeof **sample);
    return *sample ? SUCCESS : MEMORY;
}

API nvml_return nvmlGpmSampleFree(struct gpm_sample *sample) {
    struct call call;
    nvml_return answer = enter_uninitialised(&call, "nvmlGpmSampleFree");
    if (answer == SUCCESS) free(sample);
    return answer;
}

static nvml_return supports_gpm(const struct call *call) {
    struct call support = *call;
    unsigned supported = 0;
    support.function = "nvmlGpmQueryDeviceSupport";
    snprintf(support.arguments, sizeof support.arguments, "-");
    snprintf(support.scope, sizeof support.scope, "%d", call->device);
    nvml_return answer = unsigned_of(&support, "-", &supported);
    return answer != SUCCESS ? answer : supported ? SUCCESS : NOT_SUPPORTED;
}

API nvml_return nvmlGpmSampleGet(device_t device, struct gpm_sample *sample) {
    struct call call;
    nvml_return answer = enter(&call, "nvmlGpmSampleGet", device, "%s", "-");
    if (answer == SUCCESS) answer = supports_gpm(&call);
    if (answer != SUCCESS) return answer;
    if (!sample) return INVALID_ARGUMENT;
    *sample = (struct gpm_sample){now(), call.device, call.mig, true};
    return SUCCESS;
}

API nvml_return nvmlGpmMigSampleGet(device_t device, unsigned gpu_instance, struct gpm_sample *sample) {
    struct call call;
    nvml_return answer = enter(&call, "nvmlGpmMigSampleGet", device, "%u", gpu_instance);
    if (answer == SUCCESS) answer = supports_gpm(&call);
    if (answer != SUCCESS) return answer;
    if (!sample || call.mig >= 0 || !mig_is_on(call.device)) return INVALID_ARGUMENT;
    for (int mig = 0; mig < mig_devices(call.device); mig++) {
        struct call child = {.function = "nvmlDeviceGetGpuInstanceId", .arguments = "-", .device = call.device, .mig = mig};
        snprintf(child.scope, sizeof child.scope, "%d.%d", call.device, mig);
        unsigned instance = 0;
        if (unsigned_of(&child, "-", &instance) == SUCCESS && instance == gpu_instance) {
            *sample = (struct gpm_sample){now(), call.device, mig, true};
            return SUCCESS;
        }
    }
    return NOT_FOUND;
}

API nvml_return nvmlGpmMetricsGet(struct gpm_metrics *metrics) {
    struct call call;
    nvml_return answer = enter_system(&call, "nvmlGpmMetricsGet", "%s", "-");
    if (answer != SUCCESS) return answer;
    if (!metrics || metrics->version != 1) return ARGUMENT_VERSION_MISMATCH;
    struct gpm_sample *first = metrics->first, *second = metrics->second;
    if (!first || !second || !first->filled || !second->filled || metrics->count > MAX_METRICS ||
        first->device != second->device || first->mig != second->mig)
        return INVALID_ARGUMENT;
    call.device = first->device, call.mig = first->mig;
    snprintf(call.scope, sizeof call.scope, first->mig < 0 ? "%d" : "%d.%d", first->device, first->mig);
    for (unsigned place = 0; place < metrics->count; place++) {
        struct gpm_metric *metric = &metrics->metrics[place];
        snprintf(call.arguments, sizeof call.arguments, "%u", metric->id);
        metric->short_name = metric->long_name = metric->unit = "";
        metric->answer = field_fault(&call);
        if (metric->answer == SUCCESS) metric->answer = recorded(&call, "-");
        if (metric->answer != SUCCESS) continue;
        /* Of two samples of the same moment no share can be made, unless time stands still for a test. */
        bool same = second->time - first->time < 1e-6 && isnan(control->fixed);
        metric->value = same ? NAN : mean_between(find(&call, "-"), first->time, second->time);
    }
    return SUCCESS;
}
