/* link.h - what both recorders are told of a slower link between host and device, and what they tell of it.
 *
 * A copy that took less time than its bytes would need at the given bandwidth is made to end that much later. */
#ifndef TURNBUCKLE_LINK_H
#define TURNBUCKLE_LINK_H

#include <stdint.h>

/* The largest bandwidth that may be asked for [B/s]; --link-bandwidth of `turnbuckle record` takes no larger one either. */
#define MOST_BANDWIDTH INT64_C(1000000000000000)

enum link_direction { TO_DEVICE, TO_HOST, LINK_DIRECTIONS };

/* From the environment: TB_LINK_BANDWIDTH [B/s]; 0 or not set: no limit.  Returns NULL, or what is wrong with it. */
const char *link_settings(void);

/* Whether copies are limited. */
int link_limited(void);

/* What a copy of `bytes` that took `took` [ns] would have taken longer [ns]; 0 where it was slower than the limit by itself. */
int64_t link_missing(int64_t bytes, int64_t took);

/* A copy is over: what was missing, and how long it was held after its own end [ns]. */
void link_count(enum link_direction direction, int64_t bytes, int64_t missing, int64_t waited);

/* A copy that crosses and could not be limited. */
void link_missed(void);

/* Facts at the begin and at the end.  Between output_begin and output_end. */
void link_tell_settings(void);
void link_tell_totals(void);

#endif
