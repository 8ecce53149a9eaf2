/* A libnvidia-ml.so.1 that plays a script, so that the real pynvml can meet faults that no test may cause on a card.
 *
 * The script is the text file $SCRIPTED_NVML, one statement a line, `#` starts a comment:
 *
 *   driver 580.65.06
 *   device GPU-...  NAME              the statements below are about this device
 *   mig 0|1                           MIG mode; without it the device does not support MIG
 *   instance MIG-... NAME             a MIG instance of the device, with the device's memory and processes
 *   FIELD SECONDS VALUE               FIELD has VALUE from that second on; temperature_c runs straight between its
 *                                     points. A field without a point is not supported by the device.
 *   process FROM TO PID MIB           a compute process; MIB `-` is not told, TO `-` is for ever
 *   fail FUNCTION CODE AFTER          FUNCTION (`*` for every device function) returns CODE after AFTER good calls
 *
 * Time is what the file $SCRIPTED_NVML_CLOCK holds, in seconds, else real time since nvmlInitWithFlags. Compiled with
 * -DOLD_DRIVER it lacks the functions that came late, with -DNEW_DRIVER those that NVIDIA has marked for removal.
 * Structures and return codes are those of nvml.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { OK = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7 };
enum { TEMPERATURE, SM_CLOCK, MEMORY_CLOCK, POWER, POWER_LIMIT, UTILISATION, USED, TOTAL, REASONS, FIELDS };
static const char *FIELD_NAMES[FIELDS] = {"temperature_c", "sm_clock_mhz",    "memory_clock_mhz",
                                          "power_mw",      "power_limit_mw",  "utilisation_pct",
                                          "memory_used_mib", "memory_total_mib", "reasons"};

typedef struct { double at_s, value; } point;
typedef struct { point points[64]; int count; } curve;
typedef struct { double from_s, to_s; unsigned int pid; double mib; } process;
typedef struct device {
    char uuid[96], name[96];
    int mig; /* -1: not supported */
    int is_instance;
    struct device *parent, *instances[8];
    int instance_count;
    curve fields[FIELDS];
    process processes[32];
    int process_count;
} device;
typedef struct { char function[96]; int code; long after, calls; } failure;
typedef struct { unsigned int pid; unsigned long long used; unsigned int gpu_instance, compute_instance; } process_info;
typedef struct { unsigned long long total, free, used; } memory_v1;
typedef struct { unsigned int version; unsigned long long total, reserved, free, used; } memory_v2;
typedef struct { unsigned int gpu, memory; } utilisation;
typedef struct { unsigned int version; unsigned int sensor; int temperature; } temperature_v1;

static device devices[8];
static int device_count;
static failure failures[16];
static int failure_count, initialised;
static char driver[80] = "0.0";
static struct timespec began;

static double now_s(void) {
    const char *path = getenv("SCRIPTED_NVML_CLOCK");
    if (path) {
        double seconds = 0;
        FILE *file = fopen(path, "r");
        if (file) {
            if (fscanf(file, "%lf", &seconds) != 1) seconds = 0;
            fclose(file);
        }
        return seconds;
    }
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - began.tv_sec) + 1e-9 * (double)(now.tv_nsec - began.tv_nsec);
}

static void bad_script(const char *line) {
    fprintf(stderr, "scripted nvml: cannot read: %s\n", line);
    exit(70);
}

static int field_of(const char *word) {
    for (int i = 0; i < FIELDS; i++)
        if (!strcmp(word, FIELD_NAMES[i])) return i;
    return -1;
}

static device *new_device(const char *uuid, const char *name) {
    device *made = &devices[device_count++];
    memset(made, 0, sizeof *made);
    snprintf(made->uuid, sizeof made->uuid, "%s", uuid);
    snprintf(made->name, sizeof made->name, "%s", name);
    made->mig = -1;
    return made;
}

static void read_line(char *line, device **current) {
    char word[96], a[96], b[96], c[96], d[96];
    line[strcspn(line, "#\n")] = 0;
    if (sscanf(line, "%95s", word) != 1) return;
    int field = field_of(word);
    if (!strcmp(word, "driver") && sscanf(line, "%*s %79s", driver) == 1) return;
    if (!strcmp(word, "device") && sscanf(line, "%*s %95s %95[^\n]", a, b) == 2) {
        *current = new_device(a, b);
        return;
    }
    if (!strcmp(word, "fail") && sscanf(line, "%*s %95s %95s %95s", a, b, c) == 3) {
        failure *made = &failures[failure_count++];
        snprintf(made->function, sizeof made->function, "%s", a);
        made->code = atoi(b);
        made->after = atol(c);
        made->calls = 0;
        return;
    }
    if (!*current) bad_script(line);
    if (!strcmp(word, "mig") && sscanf(line, "%*s %95s", a) == 1) {
        (*current)->mig = atoi(a);
    } else if (!strcmp(word, "instance") && sscanf(line, "%*s %95s %95[^\n]", a, b) == 2) {
        device *made = new_device(a, b);
        made->is_instance = 1;
        made->parent = *current;
        (*current)->instances[(*current)->instance_count++] = made;
    } else if (!strcmp(word, "process") && sscanf(line, "%*s %95s %95s %95s %95s", a, b, c, d) == 4) {
        process *made = &(*current)->processes[(*current)->process_count++];
        made->from_s = atof(a);
        made->to_s = strcmp(b, "-") ? atof(b) : 1e300;
        made->pid = (unsigned int)atol(c);
        made->mib = strcmp(d, "-") ? atof(d) : -1;
    } else if (field >= 0 && sscanf(line, "%*s %95s %95s", a, b) == 2) {
        curve *c_ = &(*current)->fields[field];
        c_->points[c_->count].at_s = atof(a);
        c_->points[c_->count++].value = (double)strtoll(b, NULL, 0);
    } else {
        bad_script(line);
    }
}

static void read_script(void) {
    const char *path = getenv("SCRIPTED_NVML");
    FILE *file = path ? fopen(path, "r") : NULL;
    if (!file) bad_script("(no script)");
    char line[512];
    device *current = NULL;
    device_count = failure_count = 0;
    while (fgets(line, sizeof line, file)) read_line(line, &current);
    fclose(file);
}

/* The failing code for this call, else 0. */
static int failing(const char *function, int of_a_device) {
    for (int i = 0; i < failure_count; i++) {
        failure *f = &failures[i];
        if (!strcmp(f->function, function) || (of_a_device && !strcmp(f->function, "*")))
            if (f->calls++ >= f->after) return f->code;
    }
    return OK;
}

#define ENTER(of_a_device)                                     \
    do {                                                       \
        if (!initialised) return UNINITIALIZED;                \
        int code_ = failing(__func__, of_a_device);            \
        if (code_) return code_;                               \
    } while (0)

static const device *carrier(const device *d) { return d->is_instance ? d->parent : d; }

static int value_of(const device *d, int field, double *value) {
    const curve *c = &carrier(d)->fields[field];
    double now = now_s();
    if (!c->count) return NOT_SUPPORTED;
    int i = 0;
    while (i + 1 < c->count && c->points[i + 1].at_s <= now) i++;
    *value = c->points[i].value;
    if (field == TEMPERATURE && i + 1 < c->count && now > c->points[i].at_s) {
        double share = (now - c->points[i].at_s) / (c->points[i + 1].at_s - c->points[i].at_s);
        *value += share * (c->points[i + 1].value - c->points[i].value);
    }
    return OK;
}

static int unsigned_of(const device *d, int field, unsigned int *result) {
    double value;
    int code = value_of(d, field, &value);
    if (code == OK) *result = (unsigned int)(value + 0.5);
    return code;
}

int nvmlInitWithFlags(unsigned int flags) {
    (void)flags;
    read_script();
    int code = failing(__func__, 0);
    if (code) return code;
    if (!initialised++) clock_gettime(CLOCK_MONOTONIC, &began);
    return OK;
}

int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

int nvmlShutdown(void) {
    ENTER(0);
    initialised--;
    return OK;
}

const char *nvmlErrorString(int code) {
    (void)code;
    return "an error of the script";
}

int nvmlSystemGetDriverVersion(char *text, unsigned int length) {
    ENTER(0);
    snprintf(text, length, "%s", driver);
    return OK;
}

static int gpu_at(unsigned int index, device **found) {
    for (int i = 0; i < device_count; i++)
        if (!devices[i].is_instance && !index--) {
            *found = &devices[i];
            return OK;
        }
    return INVALID_ARGUMENT;
}

int nvmlDeviceGetCount_v2(unsigned int *count) {
    ENTER(0);
    device *found;
    *count = 0;
    while (gpu_at(*count, &found) == OK) ++*count;
    return OK;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, device **found) {
    ENTER(0);
    return gpu_at(index, found);
}

int nvmlDeviceGetHandleByUUID(const char *uuid, device **found) {
    ENTER(0);
    for (int i = 0; i < device_count; i++)
        if (!strcmp(devices[i].uuid, uuid)) {
            *found = &devices[i];
            return OK;
        }
    return NOT_FOUND;
}

int nvmlDeviceGetUUID(device *d, char *text, unsigned int length) {
    ENTER(1);
    snprintf(text, length, "%s", d->uuid);
    return OK;
}

int nvmlDeviceGetName(device *d, char *text, unsigned int length) {
    ENTER(1);
    snprintf(text, length, "%s", d->name);
    return OK;
}

int nvmlDeviceGetMigMode(device *d, unsigned int *current, unsigned int *pending) {
    ENTER(1);
    if (d->mig < 0) return NOT_SUPPORTED;
    *current = *pending = (unsigned int)d->mig;
    return OK;
}

int nvmlDeviceGetMaxMigDeviceCount(device *d, unsigned int *count) {
    ENTER(1);
    (void)d;
    *count = 8;
    return OK;
}

int nvmlDeviceGetMigDeviceHandleByIndex(device *d, unsigned int index, device **found) {
    ENTER(1);
    if ((int)index >= d->instance_count) return NOT_FOUND;
    *found = d->instances[index];
    return OK;
}

int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(device *d, device **found) {
    ENTER(1);
    if (!d->is_instance) return INVALID_ARGUMENT;
    *found = d->parent;
    return OK;
}

#ifndef NEW_DRIVER
int nvmlDeviceGetTemperature(device *d, unsigned int sensor, unsigned int *celsius) {
    ENTER(1);
    return sensor ? INVALID_ARGUMENT : unsigned_of(d, TEMPERATURE, celsius);
}

int nvmlDeviceGetCurrentClocksThrottleReasons(device *d, unsigned long long *reasons) {
    ENTER(1);
    unsigned int value = 0;
    int code = unsigned_of(d, REASONS, &value);
    *reasons = value;
    return code;
}
#endif

#ifndef OLD_DRIVER
int nvmlDeviceGetTemperatureV(device *d, temperature_v1 *result) {
    ENTER(1);
    if (result->version != 0x100000C || result->sensor) return INVALID_ARGUMENT;
    return unsigned_of(d, TEMPERATURE, (unsigned int *)&result->temperature);
}

int nvmlDeviceGetCurrentClocksEventReasons(device *d, unsigned long long *reasons) {
    ENTER(1);
    unsigned int value = 0;
    int code = unsigned_of(d, REASONS, &value);
    *reasons = value;
    return code;
}
#endif

int nvmlDeviceGetClockInfo(device *d, unsigned int type, unsigned int *mhz) {
    ENTER(1);
    if (type != 1 && type != 2) return INVALID_ARGUMENT;
    return unsigned_of(d, type == 1 ? SM_CLOCK : MEMORY_CLOCK, mhz);
}

int nvmlDeviceGetPowerUsage(device *d, unsigned int *milliwatt) {
    ENTER(1);
    return unsigned_of(d, POWER, milliwatt);
}

int nvmlDeviceGetEnforcedPowerLimit(device *d, unsigned int *milliwatt) {
    ENTER(1);
    return unsigned_of(d, POWER_LIMIT, milliwatt);
}

int nvmlDeviceGetUtilizationRates(device *d, utilisation *rates) {
    ENTER(1);
    if (d->is_instance) return NOT_SUPPORTED; /* as MIG has it */
    rates->memory = 0;
    return unsigned_of(d, UTILISATION, &rates->gpu);
}

static int memory_of(const device *d, double *used, double *total) {
    int code = value_of(d, USED, used);
    return code ? code : value_of(d, TOTAL, total);
}

int nvmlDeviceGetMemoryInfo(device *d, memory_v1 *memory) {
    ENTER(1);
    double used, total;
    int code = memory_of(d, &used, &total);
    if (code) return code;
    memory->total = (unsigned long long)(total * 1048576.0);
    memory->used = (unsigned long long)((used + 500.0) * 1048576.0); /* version 1 counts the driver's reserve */
    memory->free = memory->total - memory->used;
    return OK;
}

#ifndef OLD_DRIVER
int nvmlDeviceGetMemoryInfo_v2(device *d, memory_v2 *memory) {
    ENTER(1);
    if (memory->version != 0x02000028) return INVALID_ARGUMENT;
    double used, total;
    int code = memory_of(d, &used, &total);
    if (code) return code;
    memory->total = (unsigned long long)(total * 1048576.0);
    memory->reserved = 500ULL * 1048576ULL;
    memory->used = (unsigned long long)(used * 1048576.0);
    memory->free = memory->total - memory->used - memory->reserved;
    return OK;
}
#endif

static int processes_of(const device *d, unsigned int *count, process_info *list) {
    const device *c = carrier(d);
    double now = now_s();
    unsigned int room = *count, running = 0;
    for (int i = 0; i < c->process_count; i++) {
        const process *p = &c->processes[i];
        if (now < p->from_s || now >= p->to_s) continue;
        if (list && running < room) {
            unsigned long long used = p->mib < 0 ? ~0ULL : (unsigned long long)(p->mib * 1048576.0);
            list[running] = (process_info){p->pid, used, ~0U, ~0U};
        }
        running++;
    }
    *count = running;
    return running > room ? INSUFFICIENT_SIZE : OK;
}

#ifdef OLD_DRIVER
int nvmlDeviceGetComputeRunningProcesses_v2(device *d, unsigned int *count, process_info *list) {
#else
int nvmlDeviceGetComputeRunningProcesses_v3(device *d, unsigned int *count, process_info *list) {
#endif
    ENTER(1);
    return processes_of(d, count, list);
}
