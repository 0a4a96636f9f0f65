/* clock.h - the one clock of a recording: CLOCK_MONOTONIC, integer ns, the same for all processes of a machine. */
#ifndef TURNBUCKLE_CLOCK_H
#define TURNBUCKLE_CLOCK_H

#include <stdint.h>

/* Returns the time [ns]. */
int64_t clock_now(void);

/* Returns CLOCK_REALTIME minus CLOCK_MONOTONIC [ns], from the narrowest of several readings of both.
 * *at: the time of that reading, *width: the bound of its error. */
int64_t clock_to_utc(int64_t *at, int64_t *width);

/* Spins until `length` [ns] have passed since `start`; returns the time of its end.  A sleep would end a scheduler's tick too late. */
int64_t clock_spin(int64_t start, int64_t length);

#endif
