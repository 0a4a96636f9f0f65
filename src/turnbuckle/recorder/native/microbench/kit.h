/* kit.h - clock, arguments, samples and JSON of microbench.c. */
#pragma once
#include <math.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int64_t real_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}
/* A driver that keeps a clock of its own (a stand-in for tests) exports it, and device times are then read from that one. */
static int64_t (*now_ns)(void) = real_ns;

static void spin_ns(int64_t ns)
{
    int64_t begun = now_ns();
    while (now_ns() - begun < ns) { }
}

/* Processors that this process may run on: under a scheduler fewer than the node has. */
static unsigned usable_processors(void)
{
    cpu_set_t *set = CPU_ALLOC(8192);
    size_t bytes = CPU_ALLOC_SIZE(8192);
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    if (set && sched_getaffinity(0, bytes, set) == 0) count = CPU_COUNT_S(bytes, set);
    if (set) CPU_FREE(set);
    return count < 1 ? 1 : count > 1024 ? 1024 : (unsigned)count;
}
static size_t free_host(void)
{
    long pages = sysconf(_SC_AVPHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? (size_t)pages * (size_t)page : 0;
}
/* NAME=VALUE arguments: numbers from 0 to `most` */
static int argument_count;
static char **arguments;
static double argument(const char *name, double otherwise, double most)
{
    size_t n = strlen(name);
    for (int i = 0; i < argument_count; i++) {
        if (strncmp(arguments[i], name, n) || arguments[i][n] != '=') continue;
        char *text = arguments[i] + n + 1, *rest = text;
        double value = strtod(text, &rest);
        if (rest != text && !*rest && value >= 0 && value <= most) return value;
        fprintf(stderr, "%s is not a number from 0 to %.0f\n", name, most);
        exit(EXIT_USAGE);
    }
    return otherwise;
}

/* No new measurement is begun after so many seconds; what is left is listed as skipped. */
static int64_t deadline_ns;
static bool past_deadline(void) { return deadline_ns && real_ns() > deadline_ns; }

/* rows of the section, as JSON text that grows */
static char *text;
static size_t text_length, text_room;
__attribute__((format(printf, 1, 2))) static void put(const char *form, ...)
{
    va_list values;
    for (;;) {
        va_start(values, form);
        int n = vsnprintf(text + text_length, text_room - text_length, form, values);
        va_end(values);
        if (n < 0) exit(2);
        if (text_length + (size_t)n < text_room) {
            text_length += (size_t)n;
            return;
        }
        text_room = 2 * text_room + (size_t)n + 4096;
        if (!(text = realloc(text, text_room))) exit(2);
    }
}
static int rows;
#define ROW(...) (put(rows++ ? ", {" : "{"), put(__VA_ARGS__))
static void row_end(void) { put("}"); }
static bool skipped(void)
{
    if (!past_deadline()) return false;
    ROW("\"skipped\": \"deadline\"");
    row_end();
    return true;
}

/* a sample of times [ns] */
typedef struct { double *v; int n, room; } Sample;
static void add(Sample *s, double x)
{
    if (s->n == s->room && !(s->v = realloc(s->v, sizeof(double) * (size_t)(s->room = 2 * s->room + 64)))) exit(2);
    s->v[s->n++] = x;
}
static int ascending(const void *a, const void *b) { double x = *(const double *)a, y = *(const double *)b; return (x > y) - (x < y); }
static double quantile(const Sample *s, double p)
{
    double x = p * (s->n - 1);
    int i = (int)x;
    return i + 1 < s->n ? s->v[i] + (x - i) * (s->v[i + 1] - s->v[i]) : s->v[s->n - 1];
}
/* writes the sample under its name and empties it; a sample of nothing is left out */
static void stat(const char *name, Sample *s)
{
    double mean = 0;
    if (!s->n) return;
    qsort(s->v, (size_t)s->n, sizeof(double), ascending);
    for (int i = 0; i < s->n; i++) mean += s->v[i];
    put(", \"%s\": {\"n\": %d, \"min\": %.9g, \"q10\": %.9g, \"q25\": %.9g, \"median\": %.9g, \"q75\": %.9g, \"q90\": %.9g, \"q99\": %.9g, "
        "\"max\": %.9g, \"mean\": %.9g}", name, s->n, s->v[0], quantile(s, .1), quantile(s, .25), quantile(s, .5), quantile(s, .75),
        quantile(s, .9), quantile(s, .99), s->v[s->n - 1], mean / s->n);
    s->n = 0;
}
/* for (REPEAT(milliseconds, least, most)): about so long, at least and at most so often; one first time is not to be counted by the caller */
#define REPEAT(ms, least, most) \
    int64_t begun = now_ns(), turn = 0; turn < (most) && (turn < (least) || now_ns() - begun < (int64_t)((ms) * effort * 1e6)); turn++
static double effort = 1; /* --quick makes it less */
