/* Calls that give one, two or three plain values; one line each. */
#include "shim.h"

/* (device, unsigned *) */
#define UNSIGNED(name)                                                                                                 \
    API nvml_return name(device_t device, unsigned *value) {                                                           \
        struct call call;                                                                                              \
        nvml_return answer = enter(&call, #name, device, "%s", "-");                                                   \
        return answer != SUCCESS ? answer : unsigned_of(&call, "-", value);                                            \
    }
/* (device, unsigned long long *) */
#define WIDE(name)                                                                                                     \
    API nvml_return name(device_t device, unsigned long long *value) {                                                 \
        struct call call;                                                                                              \
        nvml_return answer = enter(&call, #name, device, "%s", "-");                                                   \
        return answer != SUCCESS ? answer : wide_of(&call, "-", value);                                                \
    }
/* (device, unsigned *, unsigned *), whose values have names in the recording */
#define PAIR(name, first, second)                                                                                      \
    API nvml_return name(device_t device, unsigned *one, unsigned *two) {                                              \
        struct call call;                                                                                              \
        nvml_return answer = enter(&call, #name, device, "%s", "-");                                                   \
        if (answer == SUCCESS) answer = unsigned_of(&call, first, one);                                                \
        return answer != SUCCESS ? answer : unsigned_of(&call, second, two);                                           \
    }
/* (device, which, unsigned *) */
#define INDEXED(name)                                                                                                  \
    API nvml_return name(device_t device, unsigned which, unsigned *value) {                                           \
        struct call call;                                                                                              \
        nvml_return answer = enter(&call, #name, device, "%u", which);                                                 \
        return answer != SUCCESS ? answer : unsigned_of(&call, "-", value);                                            \
    }
/* (device, which, which, unsigned long long *) */
#define TWICE_INDEXED(name)                                                                                            \
    API nvml_return name(device_t device, unsigned one, unsigned two, unsigned long long *value) {                     \
        struct call call;                                                                                              \
        nvml_return answer = enter(&call, #name, device, "%u/%u", one, two);                                           \
        return answer != SUCCESS ? answer : wide_of(&call, "-", value);                                                \
    }
/* (device, buffer, length) */
#define TEXT(name)                                                                                                     \
    API nvml_return name(device_t device, char *buffer, unsigned length) {                                             \
        struct call call;                                                                                              \
        nvml_return answer = enter(&call, #name, device, "%s", "-");                                                   \
        return answer != SUCCESS ? answer : text_of(&call, "-", buffer, length);                                       \
    }

TEXT(nvmlDeviceGetName)
TEXT(nvmlDeviceGetUUID)
TEXT(nvmlDeviceGetSerial)
TEXT(nvmlDeviceGetVbiosVersion)
TEXT(nvmlDeviceGetBoardPartNumber)
TEXT(nvmlDeviceGetInforomImageVersion)

UNSIGNED(nvmlDeviceGetArchitecture)
UNSIGNED(nvmlDeviceGetBoardId)
UNSIGNED(nvmlDeviceGetBrand)
UNSIGNED(nvmlDeviceGetBusType)
UNSIGNED(nvmlDeviceGetComputeInstanceId)
UNSIGNED(nvmlDeviceGetComputeMode)
UNSIGNED(nvmlDeviceGetCurrPcieLinkGeneration)
UNSIGNED(nvmlDeviceGetCurrPcieLinkWidth)
UNSIGNED(nvmlDeviceGetDefaultEccMode)
UNSIGNED(nvmlDeviceGetDisplayActive)
UNSIGNED(nvmlDeviceGetDisplayMode)
UNSIGNED(nvmlDeviceGetEnforcedPowerLimit)
UNSIGNED(nvmlDeviceGetFanSpeed)
UNSIGNED(nvmlDeviceGetGpuInstanceId)
UNSIGNED(nvmlDeviceGetGpuMaxPcieLinkGeneration)
UNSIGNED(nvmlDeviceGetIrqNum)
UNSIGNED(nvmlDeviceGetMaxMigDeviceCount)
UNSIGNED(nvmlDeviceGetMaxPcieLinkGeneration)
UNSIGNED(nvmlDeviceGetMaxPcieLinkWidth)
UNSIGNED(nvmlDeviceGetMemoryBusWidth)
UNSIGNED(nvmlDeviceGetMinorNumber)
UNSIGNED(nvmlDeviceGetModuleId)
UNSIGNED(nvmlDeviceGetMultiGpuBoard)
UNSIGNED(nvmlDeviceGetNumFans)
UNSIGNED(nvmlDeviceGetNumGpuCores)
UNSIGNED(nvmlDeviceGetNumaNodeId)
UNSIGNED(nvmlDeviceGetPcieLinkMaxSpeed)
UNSIGNED(nvmlDeviceGetPcieReplayCounter)
UNSIGNED(nvmlDeviceGetPcieSpeed)
UNSIGNED(nvmlDeviceGetPerformanceState)
UNSIGNED(nvmlDeviceGetPersistenceMode)
UNSIGNED(nvmlDeviceGetPowerManagementDefaultLimit)
UNSIGNED(nvmlDeviceGetPowerManagementLimit)
UNSIGNED(nvmlDeviceGetPowerManagementMode)
UNSIGNED(nvmlDeviceGetPowerSource)
UNSIGNED(nvmlDeviceGetPowerState)
UNSIGNED(nvmlDeviceGetPowerUsage)
UNSIGNED(nvmlDeviceGetRetiredPagesPendingStatus)

WIDE(nvmlDeviceGetCurrentClocksEventReasons)
WIDE(nvmlDeviceGetCurrentClocksThrottleReasons)
WIDE(nvmlDeviceGetSupportedClocksEventReasons)
WIDE(nvmlDeviceGetSupportedClocksThrottleReasons)
WIDE(nvmlDeviceGetSupportedEventTypes)
WIDE(nvmlDeviceGetTotalEnergyConsumption)

PAIR(nvmlDeviceGetCudaComputeCapability, "major", "minor")
PAIR(nvmlDeviceGetDecoderUtilization, "utilization", "samplingPeriodUs")
PAIR(nvmlDeviceGetEccMode, "current", "pending")
PAIR(nvmlDeviceGetEncoderUtilization, "utilization", "samplingPeriodUs")
PAIR(nvmlDeviceGetGspFirmwareMode, "isEnabled", "defaultMode")
PAIR(nvmlDeviceGetJpgUtilization, "utilization", "samplingPeriodUs")
PAIR(nvmlDeviceGetOfaUtilization, "utilization", "samplingPeriodUs")
PAIR(nvmlDeviceGetPowerManagementLimitConstraints, "min", "max")

INDEXED(nvmlDeviceGetApplicationsClock)
INDEXED(nvmlDeviceGetClockInfo)
INDEXED(nvmlDeviceGetDefaultApplicationsClock)
INDEXED(nvmlDeviceGetFanSpeed_v2)
INDEXED(nvmlDeviceGetMaxClockInfo)
INDEXED(nvmlDeviceGetMaxCustomerBoostClock)
INDEXED(nvmlDeviceGetNvLinkRemoteDeviceType)
INDEXED(nvmlDeviceGetNvLinkState)
INDEXED(nvmlDeviceGetNvLinkVersion)
INDEXED(nvmlDeviceGetPcieThroughput)
INDEXED(nvmlDeviceGetTemperature)
INDEXED(nvmlDeviceGetTemperatureThreshold)

TWICE_INDEXED(nvmlDeviceGetNvLinkErrorCounter)
TWICE_INDEXED(nvmlDeviceGetTotalEccErrors)

/* ---- a few with shapes of their own ---- */

API nvml_return nvmlDeviceGetMigMode(device_t device, unsigned *current, unsigned *pending) {
    struct call call;
    nvml_return answer = enter(&call, "nvmlDeviceGetMigMode", device, "%s", "-");
    if (answer == SUCCESS) answer = unsigned_of(&call, "current", current);
    if (answer == SUCCESS) answer = unsigned_of(&call, "pending", pending);
    if (answer == SUCCESS && control->mig[call.device]) *current = *pending = control->mig[call.device] == 2;
    return answer;
}

API nvml_return nvmlDeviceGetMemoryErrorCounter(device_t device, unsigned type, unsigned counter, unsigned location,
                                                unsigned long long *value) {
    struct call call;
    nvml_return answer =
        enter(&call, "nvmlDeviceGetMemoryErrorCounter", device, "%u/%u/%u", type, counter, location);
    return answer != SUCCESS ? answer : wide_of(&call, "-", value);
}

API nvml_return nvmlDeviceGetNvLinkCapability(device_t device, unsigned link, unsigned capability, unsigned *value) {
    struct call call;
    nvml_return answer = enter(&call, "nvmlDeviceGetNvLinkCapability", device, "%u/%u", link, capability);
    return answer != SUCCESS ? answer : unsigned_of(&call, "-", value);
}

API nvml_return nvmlDeviceGetClock(device_t device, unsigned type, unsigned id, unsigned *value) {
    struct call call;
    nvml_return answer = enter(&call, "nvmlDeviceGetClock", device, "%u/%u", type, id);
    return answer != SUCCESS ? answer : unsigned_of(&call, "-", value);
}

API nvml_return nvmlDeviceGetRemappedRows(device_t device, unsigned *corrected, unsigned *uncorrected,
                                          unsigned *pending, unsigned *failure) {
    struct call call;
    nvml_return answer = enter(&call, "nvmlDeviceGetRemappedRows", device, "%s", "-");
    if (answer == SUCCESS) answer = unsigned_of(&call, "corrRows", corrected);
    if (answer == SUCCESS) answer = unsigned_of(&call, "uncRows", uncorrected);
    if (answer == SUCCESS) answer = unsigned_of(&call, "isPending", pending);
    return answer != SUCCESS ? answer : unsigned_of(&call, "failureOccurred", failure);
}

API nvml_return nvmlDeviceGetInforomVersion(device_t device, unsigned object, char *buffer, unsigned length) {
    struct call call;
    nvml_return answer = enter(&call, "nvmlDeviceGetInforomVersion", device, "%u", object);
    return answer != SUCCESS ? answer : text_of(&call, "-", buffer, length);
}

/* The buffer's size is agreed on, 64 bytes. */
API nvml_return nvmlDeviceGetGspFirmwareVersion(device_t device, char *buffer) {
    struct call call;
    nvml_return answer = enter(&call, "nvmlDeviceGetGspFirmwareVersion", device, "%s", "-");
    return answer != SUCCESS ? answer : text_of(&call, "-", buffer, 64);
}
