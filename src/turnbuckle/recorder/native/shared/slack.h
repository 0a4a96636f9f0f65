/* slack.h - what both recorders are told of delays: which classes of calls wait, how long, before or after them. */
#ifndef TURNBUCKLE_SLACK_H
#define TURNBUCKLE_SLACK_H

#include <stdint.h>

/* Those of turnbuckle.profile.classify. */
enum call_class { LAUNCH, COPY, MEMSET, SYNC, ALLOC, EVENT, QUERY, STREAM, MODULE, OTHER, CALL_CLASSES };
extern const char *const call_class_names[CALL_CLASSES];

/* The longest delay of a call, fixed or random [ns]; --slack and --jitter of `turnbuckle record` take no longer one either. */
#define MOST_SLACK_NS INT64_C(100000000000)

/* The largest seed: numbers of JSON are exact up to here. */
#define MOST_SEED (INT64_C(1) << 53)

struct slack {
    int64_t ns;       /* -1: calls are not watched */
    unsigned classes; /* a bit each */
    int before;
    int64_t from, to; /* bounds of the random delay besides [ns]; `to` -1: there is none */
    uint64_t seed;
    int64_t rank; /* of this process, where a launcher tells it; else 0 */
};

/* From the environment: TB_SLACK_NS, TB_SLACK_CLASSES (those that cross to the device where it is not set), TB_SLACK_WHERE,
 * TB_JITTER_FROM_NS, TB_JITTER_TO_NS and TB_JITTER_SEED.  Returns NULL, or what is wrong with it. */
const char *slack_settings(struct slack *slack);

/* How long the next call of this thread waits: `fixed` [ns] and, if asked for, a random time besides.
 *
 * Uniform between the bounds, both included.  The sequence of a thread follows from the seed, the rank that a launcher gave the process
 * (else 0), and the thread's place in the order in which threads of the process are first delayed. */
int64_t slack_length(const struct slack *slack, int64_t fixed);

/* Facts at the end: what was drawn.  Between output_begin and output_end. */
void slack_tell_totals(const struct slack *slack);

/* Facts of these settings, at the begin of a file.  Between output_begin and output_end. */
void slack_tell(const struct slack *slack);

#endif
