/* settings.h - numbers that both recorders are given through the environment. */
#ifndef TURNBUCKLE_SETTINGS_H
#define TURNBUCKLE_SETTINGS_H

#include <stdint.h>

/* The whole number of the variable `name`, or `otherwise` where it is not set.
 * Where it is no number from 0 to `most`, *wrong says so; the text stands until the next call. */
int64_t setting(const char *name, int64_t otherwise, int64_t most, const char **wrong);

#endif
