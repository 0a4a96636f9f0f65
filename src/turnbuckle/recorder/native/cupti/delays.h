/* delays.h - added distance between host and device: calls that cross are made to wait.
 *
 * Of calls inside calls (a runtime call that calls the driver) only the outermost one that is watched waits, once.
 * A delay holds up the calling thread, not the link: copies keep their bandwidth. */
#ifndef TURNBUCKLE_DELAYS_H
#define TURNBUCKLE_DELAYS_H

#include <cuda.h>
#include <cupti.h>
#include <stdint.h>

/* Reads the settings of delays (slack.h) and TB_SLACK_STATS from the environment.  Returns NULL, or the sentence that says what is wrong. */
const char *delays_settings(void);

/* Returns whether calls are watched (a delay of 0 counts them). */
int delays_wanted(void);

/* Classifies every call by its name and asks for callbacks of those that are to wait: all others run untouched.
 * `writer` is called, by a thread of the program, when many delays wait to be written. */
CUptiResult delays_start(CUpti_SubscriberHandle subscriber, void (*writer)(void));

/* A call begins or ends. */
void delays_call(int driver, CUpti_CallbackId id, const CUpti_CallbackData *call);

/* Change the delay [ns] while the program runs; 1 if calls are watched and the delay is not longer than MOST_SLACK_NS. */
int delays_set(int64_t ns);

/* Write the facts at the begin and at the end of a file; the records of delays so far (kind L).  Between output_begin and output_end. */
void delays_tell_settings(void);
void delays_write(void);
void delays_tell_totals(void);

/* Notes a mark of the program with the counts at that time. */
void delays_mark(const char *label, int64_t at);

/* Writes the file of TB_SLACK_STATS, if that is set.  An existing file is not touched. */
void delays_statistics(void);

/* Returns the name of the class of a call. */
const char *delays_class(const char *name);

#endif
