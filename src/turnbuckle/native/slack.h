/* slack.h - what both recorders are told of delays: which classes of calls wait, how long, before or after them. */
#ifndef TURNBUCKLE_SLACK_H
#define TURNBUCKLE_SLACK_H

#include <stdint.h>

/* Those of turnbuckle.profile.classify. */
enum call_class { LAUNCH, COPY, MEMSET, SYNC, ALLOC, EVENT, QUERY, STREAM, MODULE, OTHER, CALL_CLASSES };
extern const char *const call_class_names[CALL_CLASSES];

/* The longest delay of a call [ns]; --slack of `turnbuckle record` takes no longer one either. */
#define MOST_SLACK_NS INT64_C(100000000000)

struct slack {
    int64_t ns;       /* -1: calls are not watched */
    unsigned classes; /* a bit each */
    int before;
};

/* From the environment: TB_SLACK_NS, TB_SLACK_CLASSES (those that cross to the device where it is not set), TB_SLACK_WHERE.
 * Returns NULL, or what is wrong with it. */
const char *slack_settings(struct slack *slack);

/* Facts of these settings, at the begin of a file.  Between output_begin and output_end. */
void slack_tell(const struct slack *slack);

#endif
