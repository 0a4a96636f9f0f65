/* slack.h - settings of delays, the same for both recorders: classes of calls that wait, for how long, before or after the call. */
#ifndef TURNBUCKLE_SLACK_H
#define TURNBUCKLE_SLACK_H

#include <stdint.h>

/* The classes of turnbuckle.profile.classify. */
enum call_class { LAUNCH, COPY, MEMSET, SYNC, ALLOC, EVENT, QUERY, STREAM, MODULE, OTHER, CALL_CLASSES };
extern const char *const call_class_names[CALL_CLASSES];

/* The longest delay of a call, fixed or random [ns]; --slack and --jitter of `turnbuckle record` take no longer one either. */
#define MOST_SLACK_NS INT64_C(100000000000)

/* The largest seed: numbers of JSON are exact up to here. */
#define MOST_SEED (INT64_C(1) << 53)

struct slack {
    int64_t ns;       /* -1: calls are not watched */
    unsigned classes; /* one bit for each class */
    int before;
    int64_t from, to; /* bounds of the additional random delay [ns]; `to` -1: no random delay */
    uint64_t seed;
    int64_t rank; /* of this process, from its launcher; 0 without one */
};

/* Reads TB_SLACK_NS, TB_SLACK_CLASSES (default: the calls that cross to the device), TB_SLACK_WHERE, TB_JITTER_FROM_NS, TB_JITTER_TO_NS
 * and TB_JITTER_SEED from the environment.  Returns NULL, or the sentence that says what is wrong. */
const char *slack_settings(struct slack *slack);

/* Returns how long the next call of this thread waits [ns]: `fixed`, and a random time if the settings ask for one.
 *
 * The random time is uniform between the bounds, both included.  The sequence of a thread follows from the seed, the rank that a
 * launcher gave the process (else 0), and the thread's place in the order in which threads of the process are first delayed. */
int64_t slack_length(const struct slack *slack, int64_t fixed);

/* Writes the totals of the random delays, at the end of a file.  Between output_begin and output_end. */
void slack_tell_totals(const struct slack *slack);

/* Writes these settings as facts, at the begin of a file.  Between output_begin and output_end. */
void slack_tell(const struct slack *slack);

#endif
