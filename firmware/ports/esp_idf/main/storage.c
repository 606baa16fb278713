/*
 * nvs.h and nvs_flash.h are the same from ESP-IDF 5.1 to 6.x for what is used
 * here. NVS replaces a blob as a whole; the slots do not rely on it.
 */
#include "storage.h"

#include <stdlib.h>

#include "nvs.h"
#include "nvs_flash.h"
#include "state_slots.h"

static nvs_handle_t handle;
static refold_slots slots;

static const char *const keys[REFOLD_SLOTS] = {"state0", "state1"};

/* refold_slots.read */
static size_t read_blob(void *user, int slot, void *data, size_t capacity)
{
    size_t bytes = capacity;

    (void)user;
    return nvs_get_blob(handle, keys[slot], data, &bytes) == ESP_OK ? bytes : 0;
}

/* refold_slots.write */
static bool write_blob(void *user, int slot, const void *data, size_t bytes)
{
    (void)user;
    return nvs_set_blob(handle, keys[slot], data, bytes) == ESP_OK &&
           nvs_commit(handle) == ESP_OK;
}

/* A partition of another size or a newer format begins anew. */
static bool open_nvs(void)
{
    esp_err_t status = nvs_flash_init();

    if (status == ESP_ERR_NVS_NO_FREE_PAGES || status == ESP_ERR_NVS_NEW_VERSION_FOUND)
        status = nvs_flash_erase() == ESP_OK ? nvs_flash_init() : ESP_FAIL;
    return status == ESP_OK && nvs_open("refold", NVS_READWRITE, &handle) == ESP_OK;
}

bool refold_storage_open(refold_ctx *ctx, const refold_model *model)
{
    size_t state_bytes = refold_adapt_state_bytes(model);

    if (state_bytes == 0 || !open_nvs())
        return false;
    slots.read = read_blob;
    slots.write = write_blob;
    slots.bytes = REFOLD_SLOT_HEADER_BYTES + state_bytes;
    slots.buffer = malloc(slots.bytes);
    if (slots.buffer == NULL)
        return false;
    if (refold_slots_load(&slots)) {
        refold_status status =
            refold_adapt_load(ctx, refold_slots_payload(&slots),
                              refold_adapt_record_bytes(ctx));

        (void)status; /* refused: another model's, and the state is clean */
    }
    return true;
}

bool refold_storage_save(const refold_ctx *ctx)
{
    size_t state_bytes = slots.bytes - REFOLD_SLOT_HEADER_BYTES;

    return refold_adapt_save(ctx, refold_slots_payload(&slots), state_bytes) >= 0 &&
           refold_slots_save(&slots);
}
