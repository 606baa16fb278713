#include "model.h"

const refold_model refold_model_data = {
    .abi = REFOLD_ABI,
    .name = "stub",
    .input_bytes = 3000,
    .output_count = 10,
    .site_channels = 64,
    .activation_bytes = 1024,
};
