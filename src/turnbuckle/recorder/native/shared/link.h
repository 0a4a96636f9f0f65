/* link.h - settings and totals of a slower link between host and device, the same for both recorders.
 *
 * A copy that took less time than its bytes would need at the given bandwidth is made to end that much later. */
#ifndef TURNBUCKLE_LINK_H
#define TURNBUCKLE_LINK_H

#include <stdint.h>

/* The largest bandwidth that may be asked for [B/s]; --link-bandwidth of `turnbuckle record` takes no larger one either. */
#define MOST_BANDWIDTH INT64_C(1000000000000000)

enum link_direction { TO_DEVICE, TO_HOST, LINK_DIRECTIONS };

/* Reads TB_LINK_BANDWIDTH [B/s] from the environment; 0 or not set: no limit.  Returns NULL, or the sentence that says what is wrong. */
const char *link_settings(void);

/* Returns whether copies are limited. */
int link_limited(void);

/* Returns how much longer a copy of `bytes`, which took `took` [ns], takes at the limit [ns]; 0 for a copy that was slower than the limit. */
int64_t link_missing(int64_t bytes, int64_t took);

/* Counts a copy: how much longer it takes at the limit, and how long it was held after its own end [ns]. */
void link_count(enum link_direction direction, int64_t bytes, int64_t missing, int64_t waited);

/* Counts a copy between host and device that could not be limited. */
void link_missed(void);

/* Write the facts at the begin and at the end of a file.  Between output_begin and output_end. */
void link_tell_settings(void);
void link_tell_totals(void);

#endif
