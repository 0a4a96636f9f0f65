/* output.h - the text file that a recorder writes, "turnbuckle-trace 1" (docs/record.md has the format).
 *
 * Lines that begin with '#' are facts, the first other line names the columns, every other line is one record of
 * ROW_NUMBERS numbers after its kind; a column without a value is empty.  Only whole lines are handed to the system, so what
 * was flushed is readable however the program ends.  Each process writes one file.
 *
 * Everything but output_open, output_clock, output_flush and output_close is called between output_begin and output_end, which lock.
 */
#ifndef TURNBUCKLE_OUTPUT_H
#define TURNBUCKLE_OUTPUT_H

#include <stdint.h>

#define NONE INT64_MIN /* a column without a value */

/* One record.  `kind` determines its meaning and its columns. */
struct row {
    char kind;
    int64_t start, end, corr, corr2, tid, dev, ctx, stream, name, bytes, what, src, dst, blocks, threads, regs, smem, event, evsync,
        graph, node, queued, submitted, ret, address, domain;
};
#define ROW_NUMBERS 26

/* Opens the file of this process: `pattern` with the process id for %p in its last part, and a number behind its name if that file exists.
 * Writes the first facts: format, `recorder` (one word), process id, base name of the program.  Returns 0 or an errno. */
int output_open(const char *pattern, const char *recorder);

/* Creates a file of this process, which nobody else may read: `pattern` with %p in its last part as the process id and, unless `again` is 0,
 * with that number behind it.  Returns a descriptor, or minus an errno: EEXIST where a file or a link is there already. */
int output_create(const char *pattern, int again);

/* Returns the rank that a launcher gave this process; 0 without a launcher. */
int64_t output_rank(void);

/* Returns whether records can be written: a file is open and the last write succeeded. */
int output_on(void);

/* Lock and unlock the file, around any number of calls of the functions below. */
void output_begin(void);
void output_end(void);

/* Writes one fact: a line with '#' in front.  Bytes that would end the line become blanks. */
void output_fact(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Writes the fact "#clock", the offset of UTC from CLOCK_MONOTONIC.  Not between output_begin and output_end. */
void output_clock(void);

/* Writes the line that names the columns; once, before the first record. */
void output_columns(void);

/* Returns the number of a text, and writes the fact "#name NUMBER TEXT" at its first use. */
int64_t output_name(const char *text);

/* As output_name, but the fact holds `show(text)` (freed here) unless that is NULL. */
int64_t output_name_shown(const char *text, char *(*show)(const char *text));

/* row_begin clears all columns of a record; output_row writes its line. */
void row_begin(struct row *row, char kind);
void output_row(const struct row *row);

/* Hands every whole line to the system. */
void output_flush(void);

/* Writes the last facts (#rows, #lost and #end) and closes.  Returns 0 or the errno of the first write that failed. */
int output_close(void);

/* Returns the number of records written so far. */
uint64_t output_rows(void);

/* Writes one line to stderr, with "turnbuckle: " in front. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
