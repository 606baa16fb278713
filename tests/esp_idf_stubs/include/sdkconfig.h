/* What menuconfig would write; a test defines the choices by -D. */
#ifndef SDKCONFIG_H
#define SDKCONFIG_H

#define CONFIG_IDF_TARGET "esp32s3"
#define CONFIG_REFOLD_BAUD 921600
#define CONFIG_REFOLD_CORE 1
#define CONFIG_REFOLD_PRIORITY 5
#define CONFIG_REFOLD_STACK_BYTES 8192
#ifndef CONFIG_REFOLD_RX_RING_BYTES
#define CONFIG_REFOLD_RX_RING_BYTES 16384
#endif
#ifndef CONFIG_REFOLD_WINDOW
#define CONFIG_REFOLD_WINDOW 4
#endif
#ifndef CONFIG_REFOLD_SAVE_AFTER_S
#define CONFIG_REFOLD_SAVE_AFTER_S 2
#endif

#endif
