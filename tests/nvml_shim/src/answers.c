/* The recording: read once, looked up by scope, function, arguments and field; and values as they change with time. */
#include "shim.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 1 << 16, MAX_ANSWERS = 1 << 15, MAX_LINE = 512, MAX_BYTES = 16 << 20 };

struct table {
    struct answer *slots[SLOTS];
    unsigned count;
};
static struct table recording, overrides;
static int device_count;
static int mig_counts[MAX_DEVICES];

static uint32_t hash(const char *text) {
    uint32_t value = 2166136261u;
    for (; *text; text++) value = (value ^ (unsigned char)*text) * 16777619u;
    return value;
}

static struct answer **slot_of(struct table *table, const char *key) {
    uint32_t place = hash(key) & (SLOTS - 1);
    while (table->slots[place] && strcmp(table->slots[place]->key, key)) place = (place + 1) & (SLOTS - 1);
    return &table->slots[place];
}

/* Text in a line has %XX for blanks, line ends and %. */
static char *unescaped(const char *text) {
    char *copy = malloc(strlen(text) + 1), *out = copy;
    if (!copy) return NULL;
    for (; *text; text++) {
        unsigned byte;
        if (*text == '%' && sscanf(text + 1, "%2x", &byte) == 1) {
            *out++ = (char)byte;
            text += 2;
        } else {
            *out++ = *text;
        }
    }
    *out = 0;
    return copy;
}

/* scope function arguments field kind, then what the kind needs; see recording.py. */
static bool add_line(struct table *table, char *line) {
    char *words[14], *state = NULL;
    size_t count = 0;
    for (char *word = strtok_r(line, " ", &state); word && count < COUNT_OF(words); word = strtok_r(NULL, " ", &state))
        words[count++] = word;
    if (count < 6 || table->count >= MAX_ANSWERS) return false;
    struct answer *answer = calloc(1, sizeof *answer);
    if (!answer) return false;
    char key[MAX_LINE];
    snprintf(key, sizeof key, "%s %s %s %s", words[0], words[1], words[2], words[3]);
    answer->key = strdup(key);
    answer->kind = words[4][0];
    if (answer->kind == 'e') {
        answer->type = atoi(words[5]);
    } else if (answer->kind == 't') {
        answer->text = unescaped(strcmp(words[5], "%") ? words[5] : "");
    } else if (count == 14) {
        answer->type = atoi(words[5]);
        answer->start = strtoull(words[6], NULL, 10);
        answer->fraction = strtod(words[7], NULL);
        answer->rate = strtod(words[8], NULL);
        answer->swing = strtod(words[9], NULL);
        answer->period = strtod(words[10], NULL);
        answer->phase = strtod(words[11], NULL);
        answer->wrap = atoi(words[12]);
        answer->every = strtod(words[13], NULL);
    } else {
        return false;
    }
    struct answer **slot = slot_of(table, key);
    if (!*slot) table->count++;
    *slot = answer; /* a line that comes again takes the place of the first one */
    return true;
}

static void note_scope(const char *line) {
    int device = -1, mig = -1;
    if (sscanf(line, "%d.%d", &device, &mig) < 1 || device < 0 || device >= MAX_DEVICES) return;
    if (device >= device_count) device_count = device + 1;
    if (mig >= mig_counts[device]) mig_counts[device] = mig + 1;
}

extern char folder[];

nvml_return load_recording(void) {
    static bool loaded;
    if (loaded) return SUCCESS;
    char path[4200];
    snprintf(path, sizeof path, "%s/recording", folder);
    FILE *file = fopen(path, "re");
    if (!file) return DRIVER_NOT_LOADED;
    char line[MAX_LINE];
    bool sound = true;
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        if (!*line) continue;
        note_scope(line);
        if (!add_line(&recording, line)) sound = false;
    }
    fclose(file);
    if (!sound) fprintf(stderr, "nvml shim: %s holds a line that is not understood\n", path);
    loaded = sound;
    return sound ? SUCCESS : DRIVER_NOT_LOADED;
}

/* Faults are kept in faults.c; all other lines of the rules are answers that replace those recorded. */
void clear_faults(void);
bool add_fault(char *line);

nvml_return read_rules(const char *text, size_t length) {
    clear_faults();
    for (size_t place = 0; place < SLOTS; place++) {
        struct answer *answer = overrides.slots[place];
        if (!answer) continue;
        free(answer->key);
        free((char *)answer->text);
        free(answer);
        overrides.slots[place] = NULL;
    }
    overrides.count = 0;
    for (size_t place = 0; place < length;) {
        size_t end = place;
        while (end < length && text[end] != '\n') end++;
        char line[MAX_LINE];
        size_t size = end - place < sizeof line - 1 ? end - place : sizeof line - 1;
        memcpy(line, text + place, size);
        line[size] = 0;
        place = end + 1;
        if (!size) continue;
        if (!strncmp(line, "F ", 2) ? !add_fault(line) : !add_line(&overrides, line))
            fprintf(stderr, "nvml shim: a rule is not understood\n");
    }
    return SUCCESS;
}

int recorded_devices(void) { return device_count; }
int mig_devices(int device) { return mig_counts[device]; }

static const struct answer *find_in(struct table *table, const char *scope, const struct call *call, const char *field) {
    char key[MAX_LINE];
    snprintf(key, sizeof key, "%s %s %s %s", scope, call->function, call->arguments, field);
    return *slot_of(table, key);
}

const struct answer *find(const struct call *call, const char *field) {
    const struct answer *answer = find_in(&overrides, call->scope, call, field);
    if (!answer && call->device >= 0 && call->mig < 0 && control && control->mig[call->device]) {
        /* The other mode of MIG has answers of its own: "3~off", "3~on". */
        char scope[40];
        snprintf(scope, sizeof scope, "%s~%s", call->scope, control->mig[call->device] == 1 ? "off" : "on");
        answer = find_in(&recording, scope, call, field);
    }
    if (!answer) answer = find_in(&recording, call->scope, call, field);
    return answer;
}

nvml_return recorded(const struct call *call, const char *field) {
    const struct answer *answer = find(call, "-");
    if (answer && answer->kind == 'e') return answer->type;
    if (strcmp(field, "-")) answer = find(call, field);
    if (answer) return answer->kind == 'e' ? answer->type : SUCCESS;
    /* Nothing for these arguments: what is recorded for all others. */
    struct call any = *call;
    strcpy(any.arguments, "*");
    answer = find(&any, "-");
    return answer && answer->kind == 'e' ? answer->type : NOT_SUPPORTED;
}

/* ---- numbers and time ---- */

static double settled(const struct answer *answer, double time) {
    /* Drivers take a reading now and then and give it until the next. */
    return answer->every > 0 ? floor(time / answer->every) * answer->every : time;
}

static double wave(const struct answer *answer, double time) {
    if (!answer->period || !answer->swing) return 0;
    double turn = 2 * M_PI / answer->period;
    if (answer->kind == 'g') return answer->swing * sin(turn * time + answer->phase);
    return -answer->swing / turn * (cos(turn * time + answer->phase) - cos(answer->phase));
}

double number_at(const struct answer *answer, double time) {
    time = settled(answer, time);
    return (double)answer->start + answer->fraction + answer->rate * time + wave(answer, time);
}

uint64_t integer_at(const struct answer *answer, double time) {
    time = settled(answer, time);
    double grown = answer->fraction + answer->rate * time + wave(answer, time);
    uint64_t value = answer->start + (uint64_t)llround(floor(grown + 0.5));
    if (answer->wrap > 0 && answer->wrap < 64) value &= (1ull << answer->wrap) - 1;
    return value;
}

double mean_between(const struct answer *answer, double from, double to) {
    double middle = answer->rate * (from + to) / 2;
    if (to - from < 1e-9) return number_at(answer, to);
    if (!answer->period || !answer->swing) return (double)answer->start + answer->fraction + middle;
    double turn = 2 * M_PI / answer->period;
    double area = (cos(turn * from + answer->phase) - cos(turn * to + answer->phase)) / turn;
    return (double)answer->start + answer->fraction + middle + answer->swing * area / (to - from);
}

union value value_at(const struct answer *answer, double time) {
    union value value = {.ull = 0};
    switch (answer->type) {
    case VALUE_DOUBLE: value.d = number_at(answer, time); break;
    case VALUE_UINT: value.ui = (unsigned)integer_at(answer, time); break;
    case VALUE_INT: value.si = (int)integer_at(answer, time); break;
    case VALUE_USHORT: value.us = (unsigned short)integer_at(answer, time); break;
    default: value.ull = integer_at(answer, time); break;
    }
    return value;
}

nvml_return wide_of(const struct call *call, const char *field, unsigned long long *value) {
    nvml_return answer = recorded(call, field);
    if (answer != SUCCESS) return answer;
    if (!value) return INVALID_ARGUMENT;
    const struct answer *found = find(call, field);
    if (!found || found->kind == 't') return NOT_SUPPORTED;
    *value = integer_at(found, now());
    return SUCCESS;
}

nvml_return unsigned_of(const struct call *call, const char *field, unsigned *value) {
    unsigned long long wide = 0;
    if (!value) return INVALID_ARGUMENT;
    nvml_return answer = wide_of(call, field, &wide);
    if (answer == SUCCESS) *value = (unsigned)wide;
    return answer;
}

nvml_return text_of(const struct call *call, const char *field, char *buffer, unsigned length) {
    nvml_return answer = recorded(call, field);
    if (answer != SUCCESS) return answer;
    const struct answer *found = find(call, field);
    if (!found || found->kind != 't') return NOT_SUPPORTED;
    if (!buffer) return INVALID_ARGUMENT;
    if (strlen(found->text) >= length) return INSUFFICIENT_SIZE;
    strcpy(buffer, found->text);
    return SUCCESS;
}
