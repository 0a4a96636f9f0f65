/* settings.h - numbers that both recorders read from the environment. */
#ifndef TURNBUCKLE_SETTINGS_H
#define TURNBUCKLE_SETTINGS_H

#include <stdint.h>

/* Returns the whole number in the variable `name`, or `otherwise` where it is not set.
 * *wrong is a sentence where the variable holds no number from 0 to `most`; its text is valid until the next call. */
int64_t setting(const char *name, int64_t otherwise, int64_t most, const char **wrong);

#endif
