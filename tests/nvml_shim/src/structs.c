/* Calls that fill a struct. Fields are looked for by the names that nvml.h gives them. */
#include "shim.h"

#include <stdio.h>
#include <string.h>

#define VERSION(type, number) ((unsigned)sizeof(type) | (unsigned)(number) << 24)

/* Fields one by one; the first error ends the call. */
#define WIDE_FIELD(name) (answer == SUCCESS ? (answer = wide_of(&call, #name, &out->name)) : answer)
#define FIELD(name) (answer == SUCCESS ? (answer = unsigned_of(&call, #name, (unsigned *)&out->name)) : answer)

#define BEGIN(function)                                                                                                \
    struct call call;                                                                                                  \
    nvml_return answer = enter(&call, #function, device, "%s", "-");                                                   \
    if (answer != SUCCESS) return answer;                                                                              \
    if (!out) return INVALID_ARGUMENT
#define NEEDS_VERSION(type, number)                                                                                    \
    if (out->version != VERSION(type, number)) return ARGUMENT_VERSION_MISMATCH

struct memory {
    unsigned long long total, free, used;
};
API nvml_return nvmlDeviceGetMemoryInfo(device_t device, struct memory *out) {
    BEGIN(nvmlDeviceGetMemoryInfo);
    WIDE_FIELD(total), WIDE_FIELD(free), WIDE_FIELD(used);
    return answer;
}

struct memory_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};
API nvml_return nvmlDeviceGetMemoryInfo_v2(device_t device, struct memory_v2 *out) {
    BEGIN(nvmlDeviceGetMemoryInfo_v2);
    NEEDS_VERSION(struct memory_v2, 2);
    WIDE_FIELD(total), WIDE_FIELD(reserved), WIDE_FIELD(free), WIDE_FIELD(used);
    return answer;
}

struct bar1 {
    unsigned long long bar1Total, bar1Free, bar1Used;
};
API nvml_return nvmlDeviceGetBAR1MemoryInfo(device_t device, struct bar1 *out) {
    BEGIN(nvmlDeviceGetBAR1MemoryInfo);
    WIDE_FIELD(bar1Total), WIDE_FIELD(bar1Free), WIDE_FIELD(bar1Used);
    return answer;
}

struct utilization {
    unsigned gpu, memory;
};
API nvml_return nvmlDeviceGetUtilizationRates(device_t device, struct utilization *out) {
    BEGIN(nvmlDeviceGetUtilizationRates);
    FIELD(gpu), FIELD(memory);
    return answer;
}

struct pci {
    char busIdLegacy[16];
    unsigned domain, bus, device, pciDeviceId, pciSubSystemId;
    char busId[32];
};
static nvml_return fill_pci(struct call *from, struct pci *out) {
    struct call call = *from;
    nvml_return answer = text_of(&call, "busId", out->busId, sizeof out->busId);
    FIELD(pciDeviceId), FIELD(pciSubSystemId);
    if (answer != SUCCESS) return answer;
    if (sscanf(out->busId, "%x:%x:%x", &out->domain, &out->bus, &out->device) != 3) return INVALID_ARGUMENT;
    snprintf(out->busIdLegacy, sizeof out->busIdLegacy, "%04X:%02X:%02X.0", out->domain & 0xffff, out->bus & 0xff,
             out->device & 0xff);
    return SUCCESS;
}
API nvml_return nvmlDeviceGetPciInfo_v3(device_t device, struct pci *out) {
    BEGIN(nvmlDeviceGetPciInfo_v3);
    return fill_pci(&call, out);
}

struct pci_ext {
    unsigned version, domain, bus, device, pciDeviceId, pciSubSystemId, baseClass, subClass;
    char busId[32];
};
API nvml_return nvmlDeviceGetPciInfoExt(device_t device, struct pci_ext *out) {
    BEGIN(nvmlDeviceGetPciInfoExt);
    NEEDS_VERSION(struct pci_ext, 1);
    call.function = "nvmlDeviceGetPciInfo_v3";
    struct pci pci = {.domain = 0};
    answer = fill_pci(&call, &pci);
    if (answer != SUCCESS) return answer;
    out->domain = pci.domain, out->bus = pci.bus, out->device = pci.device;
    out->pciDeviceId = pci.pciDeviceId, out->pciSubSystemId = pci.pciSubSystemId;
    out->baseClass = 3, out->subClass = 2;
    memcpy(out->busId, pci.busId, sizeof out->busId);
    return SUCCESS;
}

API nvml_return nvmlDeviceGetNvLinkRemotePciInfo_v2(device_t device, unsigned link, struct pci *out) {
    struct call call;
    nvml_return answer = enter(&call, "nvmlDeviceGetNvLinkRemotePciInfo_v2", device, "%u", link);
    if (answer != SUCCESS) return answer;
    return out ? fill_pci(&call, out) : INVALID_ARGUMENT;
}

struct temperature {
    unsigned version, sensorType;
    int temperature;
};
API nvml_return nvmlDeviceGetTemperatureV(device_t device, struct temperature *out) {
    struct call call;
    nvml_return answer = enter(&call, "nvmlDeviceGetTemperatureV", device, "%u", out ? out->sensorType : 0);
    if (answer != SUCCESS) return answer;
    if (!out) return INVALID_ARGUMENT;
    NEEDS_VERSION(struct temperature, 1);
    return unsigned_of(&call, "-", (unsigned *)&out->temperature);
}

struct margin {
    unsigned version;
    int marginTemperature;
};
API nvml_return nvmlDeviceGetMarginTemperature(device_t device, struct margin *out) {
    BEGIN(nvmlDeviceGetMarginTemperature);
    NEEDS_VERSION(struct margin, 1);
    return unsigned_of(&call, "-", (unsigned *)&out->marginTemperature);
}

struct fan_speed {
    unsigned version, fan, speed;
};
API nvml_return nvmlDeviceGetFanSpeedRPM(device_t device, struct fan_speed *out) {
    struct call call;
    nvml_return answer = enter(&call, "nvmlDeviceGetFanSpeedRPM", device, "%u", out ? out->fan : 0);
    if (answer != SUCCESS) return answer;
    if (!out) return INVALID_ARGUMENT;
    NEEDS_VERSION(struct fan_speed, 1);
    return unsigned_of(&call, "-", &out->speed);
}

struct histogram {
    unsigned max, high, partial, low, none;
};
API nvml_return nvmlDeviceGetRowRemapperHistogram(device_t device, struct histogram *out) {
    BEGIN(nvmlDeviceGetRowRemapperHistogram);
    FIELD(max), FIELD(high), FIELD(partial), FIELD(low), FIELD(none);
    return answer;
}

struct sram {
    unsigned version;
    unsigned long long aggregateUncParity, aggregateUncSecDed, aggregateCor, volatileUncParity, volatileUncSecDed,
        volatileCor, aggregateUncBucketL2, aggregateUncBucketSm, aggregateUncBucketPcie, aggregateUncBucketMcu,
        aggregateUncBucketOther;
    unsigned bThresholdExceeded;
};
API nvml_return nvmlDeviceGetSramEccErrorStatus(device_t device, struct sram *out) {
    BEGIN(nvmlDeviceGetSramEccErrorStatus);
    NEEDS_VERSION(struct sram, 1);
    WIDE_FIELD(aggregateUncParity), WIDE_FIELD(aggregateUncSecDed), WIDE_FIELD(aggregateCor);
    WIDE_FIELD(volatileUncParity), WIDE_FIELD(volatileUncSecDed), WIDE_FIELD(volatileCor);
    WIDE_FIELD(aggregateUncBucketL2), WIDE_FIELD(aggregateUncBucketSm), WIDE_FIELD(aggregateUncBucketPcie);
    WIDE_FIELD(aggregateUncBucketMcu), WIDE_FIELD(aggregateUncBucketOther), FIELD(bThresholdExceeded);
    return answer;
}

struct ecc_counts {
    unsigned long long l1Cache, l2Cache, deviceMemory, registerFile;
};
API nvml_return nvmlDeviceGetDetailedEccErrors(device_t device, unsigned type, unsigned counter,
                                               struct ecc_counts *out) {
    struct call call;
    nvml_return answer = enter(&call, "nvmlDeviceGetDetailedEccErrors", device, "%u/%u", type, counter);
    if (answer != SUCCESS) return answer;
    if (!out) return INVALID_ARGUMENT;
    WIDE_FIELD(l1Cache), WIDE_FIELD(l2Cache), WIDE_FIELD(deviceMemory), WIDE_FIELD(registerFile);
    return answer;
}

struct violation {
    unsigned long long referenceTime, violationTime;
};
API nvml_return nvmlDeviceGetViolationStatus(device_t device, unsigned policy, struct violation *out) {
    struct call call;
    nvml_return answer = enter(&call, "nvmlDeviceGetViolationStatus", device, "%u", policy);
    if (answer != SUCCESS) return answer;
    if (!out) return INVALID_ARGUMENT;
    WIDE_FIELD(violationTime);
    out->referenceTime = unix_microseconds(now());
    return answer;
}

struct attributes {
    unsigned multiprocessorCount, sharedCopyEngineCount, sharedDecoderCount, sharedEncoderCount, sharedJpegCount,
        sharedOfaCount, gpuInstanceSliceCount, computeInstanceSliceCount;
    unsigned long long memorySizeMB;
};
API nvml_return nvmlDeviceGetAttributes_v2(device_t device, struct attributes *out) {
    BEGIN(nvmlDeviceGetAttributes_v2);
    FIELD(multiprocessorCount), FIELD(sharedCopyEngineCount), FIELD(sharedDecoderCount), FIELD(sharedEncoderCount);
    FIELD(sharedJpegCount), FIELD(sharedOfaCount), FIELD(gpuInstanceSliceCount), FIELD(computeInstanceSliceCount);
    WIDE_FIELD(memorySizeMB);
    return answer;
}

/* ---- the fabric of NVSwitches ---- */

struct fabric {
    unsigned char clusterUuid[16];
    int status;
    uint32_t cliqueId;
    unsigned char state;
};
/* Versions 2 and 3 of the struct differ in what stands at the end. */
struct fabric_v3 {
    unsigned version;
    unsigned char clusterUuid[16];
    int status;
    uint32_t cliqueId;
    unsigned char state;
    uint32_t healthMask;
    unsigned char healthSummary;
};
enum { FABRIC_V2 = 0x02000024, FABRIC_V3 = 0x03000028 };

static nvml_return cluster_uuid(const struct call *call, unsigned char *bytes) {
    char text[64];
    nvml_return answer = text_of(call, "clusterUuid", text, sizeof text);
    if (answer != SUCCESS) return answer;
    size_t filled = 0;
    for (const char *place = text; *place && filled < 16; place++) {
        unsigned byte;
        if (*place != '-' && sscanf(place++, "%2x", &byte) == 1) bytes[filled++] = (unsigned char)byte;
        if (!*place) break;
    }
    return SUCCESS;
}

static nvml_return fill_fabric(struct call *from, struct fabric_v3 *out, bool health) {
    struct call call = *from;
    call.function = "nvmlDeviceGetGpuFabricInfoV";
    unsigned byte = 0;
    nvml_return answer = cluster_uuid(&call, out->clusterUuid);
    FIELD(status), FIELD(cliqueId);
    if (answer == SUCCESS) answer = unsigned_of(&call, "state", &byte);
    if (answer == SUCCESS) out->state = (unsigned char)byte;
    if (health) FIELD(healthMask);
    return answer;
}

API nvml_return nvmlDeviceGetGpuFabricInfoV(device_t device, struct fabric_v3 *out) {
    BEGIN(nvmlDeviceGetGpuFabricInfoV);
    if (out->version != FABRIC_V2 && out->version != FABRIC_V3) return ARGUMENT_VERSION_MISMATCH;
    answer = fill_fabric(&call, out, true);
    unsigned summary = 0;
    if (answer != SUCCESS || out->version == FABRIC_V2) return answer;
    /* Drivers before the third version know no summary. */
    if (unsigned_of(&call, "healthSummary", &summary) != SUCCESS) return ARGUMENT_VERSION_MISMATCH;
    out->healthSummary = (unsigned char)summary;
    return SUCCESS;
}

API nvml_return nvmlDeviceGetGpuFabricInfo(device_t device, struct fabric *out) {
    BEGIN(nvmlDeviceGetGpuFabricInfo);
    struct fabric_v3 full = {.version = 0};
    answer = fill_fabric(&call, &full, false);
    if (answer != SUCCESS) return answer;
    memcpy(out->clusterUuid, full.clusterUuid, sizeof out->clusterUuid);
    out->status = full.status, out->cliqueId = full.cliqueId, out->state = full.state;
    return SUCCESS;
}

/* nvml.h's sizes, which its callers put into "version". */
_Static_assert(VERSION(struct memory_v2, 2) == 0x02000028, "nvmlMemory_v2_t");
_Static_assert(VERSION(struct pci_ext, 1) == 0x1000040, "nvmlPciInfoExt_v1_t");
_Static_assert(VERSION(struct temperature, 1) == 0x100000C, "nvmlTemperature_v1_t");
_Static_assert(VERSION(struct margin, 1) == 0x1000008, "nvmlMarginTemperature_v1_t");
_Static_assert(VERSION(struct fan_speed, 1) == 0x100000C, "nvmlFanSpeedInfo_v1_t");
_Static_assert(VERSION(struct sram, 1) == 0x1000068, "nvmlEccSramErrorStatus_v1_t");
_Static_assert(VERSION(struct fabric_v3, 3) == FABRIC_V3, "nvmlGpuFabricInfo_v3_t");
_Static_assert(offsetof(struct fabric_v3, healthSummary) == (FABRIC_V2 & 0xffffff), "nvmlGpuFabricInfo_v2_t");
_Static_assert(sizeof(struct pci) == 68, "nvmlPciInfo_t");
