/* link.c - see link.h. */
#include "link.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stddef.h>

#include "output.h"
#include "settings.h"

static int64_t bandwidth; /* [B/s] */
static struct { _Atomic uint64_t copies, bytes, missing_ns, waited_ns; } totals[LINK_DIRECTIONS];
static _Atomic uint64_t missed;

const char *link_settings(void)
{
    const char *wrong = NULL;
    bandwidth = setting("TB_LINK_BANDWIDTH", 0, MOST_BANDWIDTH, &wrong);
    return wrong;
}

int link_limited(void) { return bandwidth > 0; }

int64_t link_missing(int64_t bytes, int64_t took)
{
    enum { NS = 1000000000 };
    if (bandwidth <= 0 || bytes <= 0) return 0;
    /* whole seconds and the rest apart, so that no product exceeds 64 bits; the last ns is begun, never cut off */
    int64_t seconds = bytes / bandwidth;
    if (seconds > INT64_MAX / NS - 1) return INT64_MAX / 2;
    double rest = (double)(bytes % bandwidth) / (double)bandwidth * NS;
    int64_t needed = seconds * NS + (int64_t)rest + (rest > (double)(int64_t)rest);
    return needed > took ? needed - took : 0;
}

void link_count(enum link_direction direction, int64_t bytes, int64_t missing, int64_t waited)
{
    atomic_fetch_add_explicit(&totals[direction].copies, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&totals[direction].bytes, (uint64_t)bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&totals[direction].missing_ns, (uint64_t)missing, memory_order_relaxed);
    atomic_fetch_add_explicit(&totals[direction].waited_ns, (uint64_t)waited, memory_order_relaxed);
}

void link_missed(void) { atomic_fetch_add_explicit(&missed, 1, memory_order_relaxed); }

void link_tell_settings(void)
{
    if (bandwidth > 0) output_fact("link_bandwidth %" PRId64, bandwidth);
}

void link_tell_totals(void)
{
    static const char *const words[LINK_DIRECTIONS] = { "h2d", "d2h" };
    for (int i = 0; i < LINK_DIRECTIONS; i++)
        if (totals[i].copies)
            output_fact("link_total %s copies=%" PRIu64 " bytes=%" PRIu64 " missing_ns=%" PRIu64 " waited_ns=%" PRIu64, words[i],
                        (uint64_t)totals[i].copies, (uint64_t)totals[i].bytes, (uint64_t)totals[i].missing_ns, (uint64_t)totals[i].waited_ns);
    if (missed) output_fact("link_missed %" PRIu64, (uint64_t)missed);
}
