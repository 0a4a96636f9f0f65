/* clock.h - the one clock of a recording: CLOCK_MONOTONIC, integer ns, the same for all processes of a machine. */
#ifndef TURNBUCKLE_CLOCK_H
#define TURNBUCKLE_CLOCK_H

#include <stdint.h>

/* Now [ns]. */
int64_t clock_now(void);

/* CLOCK_REALTIME minus CLOCK_MONOTONIC [ns], from the narrowest of some looks at both; *at: when, *width: how far it may be off. */
int64_t clock_to_utc(int64_t *at, int64_t *width);

/* Spins until `length` [ns] have passed since `start`; returns when it ended.  A sleep would end a scheduler's tick too late. */
int64_t clock_spin(int64_t start, int64_t length);

#endif
