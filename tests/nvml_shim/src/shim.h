/* A stand-in for libnvidia-ml.so.1: shared declarations.
 *
 * Beside the library lie two files. "recording" holds what the host answers, one value a line (see recording.py, which writes
 * it from JSON); it is read once. "control" is a page of shared memory with which a test changes the answers while the
 * library is in use (see control.py); it also holds the counts of calls.
 */
#ifndef HWSONDE_NVML_SHIM_H
#define HWSONDE_NVML_SHIM_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define API __attribute__((visibility("default")))
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

typedef int nvml_return;
enum {
    SUCCESS = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9,
    TIMEOUT = 10,
    GPU_IS_LOST = 15,
    MEMORY = 20,
    ARGUMENT_VERSION_MISMATCH = 25,
};

enum { MAX_DEVICES = 32, MAX_EVENTS = 512, MAX_FUNCTIONS = 512, NAME_BYTES = 56, RULES_BYTES = 1 << 18 };

/* The shared page. Its layout is repeated in control.py; the test of the control page compares the two. */
struct event {
    uint32_t device, gpu_instance, compute_instance, unused;
    uint64_t type, data;
};
struct tally {
    char name[NAME_BYTES];
    uint64_t calls;
};
struct control {
    uint64_t magic;
    volatile uint64_t sequence; /* odd while a test writes */
    uint64_t start_ns;          /* CLOCK_REALTIME at which the recording's time is 0 */
    double fixed;               /* the recording's time, if it stands still; otherwise NaN */
    uint32_t driver;            /* 0, or the error that nvmlInit gives */
    uint32_t generation;        /* grows when the driver is loaded anew */
    uint32_t stale;             /* the error that an old handle gives */
    uint32_t process_stride;    /* bytes of an entry of the lists of processes, 0 as the symbol's version says */
    uint64_t absent;            /* bits of GPUs that are not there */
    uint32_t epoch[MAX_DEVICES]; /* grows when a GPU is reset */
    uint32_t mig[MAX_DEVICES];   /* 0 as recorded, 1 off, 2 on */
    uint32_t mig_epoch[MAX_DEVICES];
    volatile uint64_t head; /* events so far */
    struct event events[MAX_EVENTS];
    uint32_t rules_length;
    char rules[RULES_BYTES];
    /* What the library tells. */
    uint64_t initialisations, calls, hanging, last_process;
    struct tally tallies[MAX_FUNCTIONS];
};
extern struct control *control;

/* ---- handles ---- */
struct handle {
    uint32_t generation, epoch;
    int32_t device, mig; /* mig is -1 for the GPU itself */
};
typedef struct handle *device_t;

/* Where a call's answer is looked for. Arguments are joined by "/", "-" if there are none. */
struct call {
    const char *function;
    char scope[24], arguments[48];
    int32_t device, mig;
};

/* Begins every call: counts it, checks that the library is initialised and the handle valid, and does what an injected fault
 * demands. An answer other than SUCCESS ends the call. "empty" is set where a fault wants an empty list. */
nvml_return enter(struct call *call, const char *function, device_t device, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
nvml_return enter_system(struct call *call, const char *function, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
nvml_return enter_uninitialised(struct call *call, const char *function);

/* The error that a fault wants for one field of a batch, or SUCCESS. */
nvml_return field_fault(const struct call *call);
bool wants_empty(const struct call *call);

/* ---- answers ---- */
enum value_type { VALUE_DOUBLE, VALUE_UINT, VALUE_ULONG, VALUE_ULLONG, VALUE_LLONG, VALUE_INT, VALUE_USHORT };
struct answer {
    char kind; /* e error, t text, g gauge, c counter */
    int type;  /* an error's code, or a number's enum value_type */
    uint64_t start;
    double fraction, rate, swing, period, phase, every;
    int wrap; /* bits, 0 for none */
    const char *text;
    char *key;
};
union value {
    double d;
    unsigned ui;
    unsigned long ul;
    unsigned long long ull;
    long long sll;
    int si;
    unsigned short us;
};

nvml_return load_recording(void);
nvml_return read_rules(const char *text, size_t length);

/* The answer to a call, or NULL; "field" is "-" where it has only one value. */
const struct answer *find(const struct call *call, const char *field);
/* The error recorded for a call: NOT_SUPPORTED if nothing is, SUCCESS if it has values. */
nvml_return recorded(const struct call *call, const char *field);
nvml_return unsigned_of(const struct call *call, const char *field, unsigned *value);
nvml_return wide_of(const struct call *call, const char *field, unsigned long long *value);
nvml_return text_of(const struct call *call, const char *field, char *buffer, unsigned length);
double number_at(const struct answer *answer, double time);
uint64_t integer_at(const struct answer *answer, double time);
double mean_between(const struct answer *answer, double from, double to);
union value value_at(const struct answer *answer, double time);

/* Seconds since the recording's start, and the same moment in microseconds of Unix time. */
double now(void);
uint64_t unix_microseconds(double time);
uint64_t wall_microseconds(void); /* Unix time, also where the recording's stands still */

/* ---- devices ---- */
int devices_present(void);
int device_at(unsigned index);
int recorded_devices(void);
int mig_devices(int device);
bool mig_is_on(int device);
device_t handle_of(int device, int mig);
void refresh(void);
nvml_return check_handle(device_t device);
nvml_return check_library(void);
extern pthread_mutex_t lock; /* recursive: guards answers, rules and handles */

#endif
