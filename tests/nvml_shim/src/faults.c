/* What a test may do to a host while it runs: the shared page, the faults in it, and the beginning of every call. */
#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <dlfcn.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static const uint64_t MAGIC = 0x316d766e2d737768ull;
enum { MAX_FAULTS = 256 };
enum action { ERROR, HANG, DEAF, BLOCK, SLOW, EMPTY };

struct fault {
    char scope[24], function[64], arguments[48], place[400];
    enum action action;
    long parameter; /* an error's code, or microseconds */
    unsigned one_in, seen;
};

struct control *control;
char folder[4096];
pthread_mutex_t lock;
API const size_t hwsonde_control_bytes = sizeof(struct control); /* for the test of the layout */
static struct fault faults[MAX_FAULTS];
static size_t fault_count;
static uint64_t read_sequence = 1;
static struct control nothing; /* stands in where a test has made no page */

__attribute__((constructor)) static void prepare(void) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&lock, &attributes);
    Dl_info found;
    if (dladdr((void *)prepare, &found) && found.dli_fname) snprintf(folder, sizeof folder, "%s", found.dli_fname);
    char *slash = strrchr(folder, '/');
    strcpy(slash ? slash : folder, slash ? "" : ".");
    char path[4200];
    snprintf(path, sizeof path, "%s/control", folder);
    int descriptor = open(path, O_RDWR | O_CLOEXEC);
    if (descriptor >= 0) {
        void *page = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
        close(descriptor);
        if (page != MAP_FAILED && ((struct control *)page)->magic == MAGIC) control = page;
    }
    if (!control) {
        struct timespec clock;
        clock_gettime(CLOCK_REALTIME, &clock);
        nothing.start_ns = (uint64_t)clock.tv_sec * 1000000000ull + (uint64_t)clock.tv_nsec;
        nothing.fixed = NAN;
        nothing.stale = UNINITIALIZED;
        control = &nothing;
    }
}

double now(void) {
    if (!isnan(control->fixed)) return control->fixed;
    struct timespec clock;
    clock_gettime(CLOCK_REALTIME, &clock);
    int64_t passed = (int64_t)((uint64_t)clock.tv_sec * 1000000000ull + (uint64_t)clock.tv_nsec - control->start_ns);
    return passed > 0 ? (double)passed / 1e9 : 0;
}

uint64_t wall_microseconds(void) {
    struct timespec clock;
    clock_gettime(CLOCK_REALTIME, &clock);
    return (uint64_t)clock.tv_sec * 1000000 + (uint64_t)clock.tv_nsec / 1000;
}

uint64_t unix_microseconds(double time) { return control->start_ns / 1000 + (uint64_t)llround(time * 1e6); }

/* ---- faults ---- */

void clear_faults(void) { fault_count = 0; }

/* F scope function arguments action parameter one_in */
bool add_fault(char *line) {
    static const char *const names[] = {"error", "hang", "deaf", "block", "slow", "empty"};
    char action[16], parameter[400];
    struct fault fault = {.one_in = 1};
    if (sscanf(line, "F %23s %63s %47s %15s %399s %u", fault.scope, fault.function, fault.arguments, action, parameter,
               &fault.one_in) != 6 ||
        fault_count >= MAX_FAULTS)
        return false;
    for (size_t place = 0; place < COUNT_OF(names); place++) {
        if (strcmp(names[place], action)) continue;
        fault.action = (enum action)place;
        fault.parameter = atol(parameter);
        snprintf(fault.place, sizeof fault.place, "%s", parameter);
        faults[fault_count++] = fault;
        return true;
    }
    return false;
}

/* Reads the rules again if a test has changed them. */
void refresh(void) {
    uint64_t sequence = control->sequence;
    while (sequence != read_sequence) {
        if (sequence & 1) { /* being written */
            usleep(50);
        } else {
            size_t length = control->rules_length < RULES_BYTES ? control->rules_length : RULES_BYTES;
            read_rules(control->rules, length);
            __sync_synchronize();
            if (control->sequence == sequence) read_sequence = sequence;
        }
        sequence = control->sequence;
    }
}

static const struct fault *fault_of(const struct call *call, const char *arguments) {
    for (size_t place = 0; place < fault_count; place++) {
        struct fault *fault = &faults[place];
        if (fnmatch(fault->scope, call->scope, 0) || fnmatch(fault->function, call->function, 0) ||
            fnmatch(fault->arguments, arguments, 0))
            continue;
        if (++fault->seen % fault->one_in == 0) return fault;
    }
    return NULL;
}

static void hang(bool deaf) {
    if (deaf) { /* only SIGKILL ends it */
        struct sigaction ignore = {.sa_handler = SIG_IGN};
        for (int number = 1; number < NSIG; number++)
            if (number != SIGCHLD) sigaction(number, &ignore, NULL);
    }
    __sync_fetch_and_add(&control->hanging, 1);
    for (;;) sleep(3600);
}

static nvml_return suffer(const struct fault *fault) {
    struct timespec rest = {fault->parameter / 1000000, fault->parameter % 1000000 * 1000};
    switch (fault->action) {
    case ERROR: return (nvml_return)fault->parameter;
    case HANG: hang(false); break;
    case DEAF: hang(true); break;
    case BLOCK: { /* waits in the kernel, for whoever serves this file */
        __sync_fetch_and_add(&control->hanging, 1);
        char byte;
        int descriptor = open(fault->place, O_RDONLY | O_CLOEXEC);
        if (descriptor >= 0) {
            if (read(descriptor, &byte, 1) < 0) perror("nvml shim");
            close(descriptor);
        }
        return GPU_IS_LOST;
    }
    case SLOW:
        while (nanosleep(&rest, &rest) && errno == EINTR) continue;
        break;
    case EMPTY: break;
    }
    return SUCCESS;
}

nvml_return field_fault(const struct call *call) {
    const struct fault *fault = fault_of(call, call->arguments);
    return fault && fault->action == ERROR ? (nvml_return)fault->parameter : SUCCESS;
}

bool wants_empty(const struct call *call) {
    const struct fault *fault = fault_of(call, call->arguments);
    return fault && fault->action == EMPTY;
}

/* ---- the beginning of a call ---- */

static void tally(const char *function) {
    __sync_fetch_and_add(&control->calls, 1);
    for (size_t place = 0; place < MAX_FUNCTIONS; place++) {
        struct tally *tally = &control->tallies[place];
        if (!tally->name[0]) snprintf(tally->name, sizeof tally->name, "%s", function);
        if (!strcmp(tally->name, function)) {
            tally->calls++;
            return;
        }
    }
}

static nvml_return begin(struct call *call, const char *function, const char *format, va_list arguments) {
    call->function = function;
    if (vsnprintf(call->arguments, sizeof call->arguments, format, arguments) >= (int)sizeof call->arguments)
        return INVALID_ARGUMENT;
    pthread_mutex_lock(&lock);
    refresh();
    tally(function);
    const struct fault *fault = fault_of(call, call->arguments);
    struct fault copy;
    if (fault) copy = *fault;
    pthread_mutex_unlock(&lock);
    return fault ? suffer(&copy) : SUCCESS;
}

nvml_return enter(struct call *call, const char *function, device_t device, const char *format, ...) {
    pthread_mutex_lock(&lock);
    refresh();
    nvml_return answer = check_library();
    if (answer == SUCCESS) answer = check_handle(device);
    if (answer == SUCCESS) {
        call->device = device->device;
        call->mig = device->mig;
        if (device->mig < 0)
            snprintf(call->scope, sizeof call->scope, "%d", device->device);
        else
            snprintf(call->scope, sizeof call->scope, "%d.%d", device->device, device->mig);
    }
    pthread_mutex_unlock(&lock);
    if (answer != SUCCESS) return answer;
    va_list arguments;
    va_start(arguments, format);
    answer = begin(call, function, format, arguments);
    va_end(arguments);
    return answer;
}

static void system_scope(struct call *call) {
    strcpy(call->scope, "s");
    call->device = call->mig = -1;
}

nvml_return enter_system(struct call *call, const char *function, const char *format, ...) {
    system_scope(call);
    pthread_mutex_lock(&lock);
    refresh();
    nvml_return answer = check_library();
    pthread_mutex_unlock(&lock);
    if (answer != SUCCESS) return answer;
    va_list arguments;
    va_start(arguments, format);
    answer = begin(call, function, format, arguments);
    va_end(arguments);
    return answer;
}

static nvml_return begin_plain(struct call *call, const char *function, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    nvml_return answer = begin(call, function, format, arguments);
    va_end(arguments);
    return answer;
}

nvml_return enter_uninitialised(struct call *call, const char *function) {
    system_scope(call);
    return begin_plain(call, function, "%s", "-");
}
