/* settings.c - see settings.h. */
#include "settings.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DIGITS = 18 }; /* as many as always fit into 64 bits */

int64_t setting(const char *name, int64_t otherwise, int64_t most, const char **wrong)
{
    static char allowed[128];
    const char *text = getenv(name);
    if (!text || !*text) return otherwise;
    size_t length = strlen(text);
    int64_t value = length <= MOST_DIGITS && strspn(text, "0123456789") == length ? strtoll(text, NULL, 10) : -1;
    if (value >= 0 && value <= most) return value;
    snprintf(allowed, sizeof allowed, "%s is not a number from 0 to %" PRId64, name, most);
    *wrong = allowed;
    return otherwise;
}
