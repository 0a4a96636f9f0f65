/* kernels.h - kernels as PTX text, which the driver compiles for whatever device there is.
 *
 * PTX 6.3 for compute capability 6.0 and newer.  `microbench ptx` prints it. */
#pragma once
#include <stdarg.h>
#include <stdio.h>

static char ptx_text[32768];
static size_t ptx_length;

__attribute__((format(printf, 1, 2))) static void ptx(const char *form, ...)
{
    va_list values;
    va_start(values, form);
    ptx_length += (size_t)vsnprintf(ptx_text + ptx_length, sizeof ptx_text - ptx_length, form, values);
    va_end(values);
}

/* index of this thread in %rd0, number of threads in %rd1 */
static const char *const GRID =
    "  .reg .u32 %r<8>;\n  .reg .u64 %rd<16>;\n  .reg .pred %p;\n"
    "  mov.u32 %r0, %ctaid.x;\n  mov.u32 %r1, %ntid.x;\n  mov.u32 %r2, %tid.x;\n  mov.u32 %r3, %nctaid.x;\n"
    "  mul.wide.u32 %rd0, %r0, %r1;\n  cvt.u64.u32 %rd2, %r2;\n  add.u64 %rd0, %rd0, %rd2;\n  mul.wide.u32 %rd1, %r3, %r1;\n";

static void ptx_fma(const char *name, const char *type, int bits, const char *factor, const char *summand)
{
    ptx(".visible .entry %s(.param .u64 out, .param .u32 rounds)\n{\n%s  .reg .%s %%x<10>;\n", name, GRID, type);
    ptx("  ld.param.u64 %%rd4, [out];\n  cvta.to.global.u64 %%rd4, %%rd4;\n  ld.param.u32 %%r4, [rounds];\n");
    ptx("  mov.%s %%x8, %s;\n  mov.%s %%x9, %s;\n", type, factor, type, summand);
    for (int i = 0; i < 8; i++) ptx("  add.u32 %%r5, %%r2, %d;\n  cvt.rn.%s.u32 %%x%d, %%r5;\n", i, type, i);
    ptx("again:\n");
    for (int k = 0; k < 16; k++)
        for (int i = 0; i < 8; i++) ptx("  fma.rn.%s %%x%d, %%x%d, %%x8, %%x9;\n", type, i, i);
    ptx("  sub.u32 %%r4, %%r4, 1;\n  setp.ne.u32 %%p, %%r4, 0;\n  @%%p bra again;\n");
    for (int i = 1; i < 8; i++) ptx("  add.%s %%x0, %%x0, %%x%d;\n", type, i);
    ptx("  shl.b64 %%rd5, %%rd0, %d;\n  add.u64 %%rd4, %%rd4, %%rd5;\n  st.global.%s [%%rd4], %%x0;\n  ret;\n}\n", bits, type);
}

/* one pass over memory in steps of 16 bytes (or 8, for the triad), all threads together */
static void ptx_pass(const char *name, const char *parameters, const char *load, int shift, const char *body, const char *after)
{
    ptx(".visible .entry %s(%s)\n{\n%s  .reg .f64 %%d<8>;\n%s", name, parameters, GRID, load);
    ptx("  mov.f64 %%d6, 0d0000000000000000;\n  setp.ge.u64 %%p, %%rd0, %%rd9;\n  @%%p bra done;\n");
    ptx("again:\n  shl.b64 %%rd8, %%rd0, %d;\n%s", shift, body);
    ptx("  add.u64 %%rd0, %%rd0, %%rd1;\n  setp.lt.u64 %%p, %%rd0, %%rd9;\n  @%%p bra again;\ndone:\n%s  ret;\n}\n", after);
}

static const char *kernels_ptx(void)
{
    if (ptx_length) return ptx_text;
    ptx(".version 6.3\n.target sm_60\n.address_size 64\n");
    ptx(".visible .entry tb_empty()\n{\n  ret;\n}\n");
    ptx(".visible .entry tb_spin(.param .u64 cycles)\n{\n  .reg .u64 %%rd<4>;\n  .reg .pred %%p;\n  ld.param.u64 %%rd0, [cycles];\n"
        "  mov.u64 %%rd1, %%clock64;\nagain:\n  mov.u64 %%rd2, %%clock64;\n  sub.u64 %%rd3, %%rd2, %%rd1;\n"
        "  setp.lt.u64 %%p, %%rd3, %%rd0;\n  @%%p bra again;\n  ret;\n}\n");
    /* after ns, store value where the host looks */
    ptx(".visible .entry tb_flag(.param .u64 ns, .param .u64 flag, .param .u32 value)\n{\n  .reg .u64 %%rd<6>;\n  .reg .u32 %%r0;\n  .reg .pred %%p;\n"
        "  ld.param.u64 %%rd0, [ns];\n  ld.param.u64 %%rd4, [flag];\n  cvta.to.global.u64 %%rd4, %%rd4;\n  ld.param.u32 %%r0, [value];\n"
        "  mov.u64 %%rd1, %%globaltimer;\nagain:\n  mov.u64 %%rd2, %%globaltimer;\n  sub.u64 %%rd3, %%rd2, %%rd1;\n"
        "  setp.lt.u64 %%p, %%rd3, %%rd0;\n  @%%p bra again;\n  st.volatile.global.u32 [%%rd4], %%r0;\n  membar.sys;\n  ret;\n}\n");
    /* answers count flags of the host, one after the other; gives up after limit ns without one */
    ptx(".visible .entry tb_pingpong(.param .u64 from, .param .u64 to, .param .u32 count, .param .u64 limit)\n{\n"
        "  .reg .u64 %%rd<8>;\n  .reg .u32 %%r<4>;\n  .reg .pred %%p;\n"
        "  ld.param.u64 %%rd0, [from];\n  cvta.to.global.u64 %%rd0, %%rd0;\n  ld.param.u64 %%rd1, [to];\n  cvta.to.global.u64 %%rd1, %%rd1;\n"
        "  ld.param.u32 %%r0, [count];\n  ld.param.u64 %%rd2, [limit];\n  mov.u32 %%r1, 1;\n"
        "turn:\n  mov.u64 %%rd3, %%globaltimer;\nwait:\n  ld.volatile.global.u32 %%r2, [%%rd0];\n  setp.eq.u32 %%p, %%r2, %%r1;\n  @%%p bra answer;\n"
        "  mov.u64 %%rd4, %%globaltimer;\n  sub.u64 %%rd5, %%rd4, %%rd3;\n  setp.lt.u64 %%p, %%rd5, %%rd2;\n  @%%p bra wait;\n  ret;\n"
        "answer:\n  st.volatile.global.u32 [%%rd1], %%r1;\n  membar.sys;\n  add.u32 %%r1, %%r1, 1;\n  setp.le.u32 %%p, %%r1, %%r0;\n  @%%p bra turn;\n  ret;\n}\n");
    /* a chain of loads by one thread: 16 to warm up, then steps; cycles and ns of those */
    ptx(".visible .entry tb_chase(.param .u64 next, .param .u32 first, .param .u32 steps, .param .u64 out, .param .u64 cycles, .param .u64 ns)\n{\n"
        "  .reg .u64 %%rd<12>;\n  .reg .u32 %%r<6>;\n  .reg .pred %%p;\n"
        "  ld.param.u64 %%rd0, [next];\n  cvta.to.global.u64 %%rd0, %%rd0;\n  ld.param.u32 %%r0, [first];\n  ld.param.u32 %%r1, [steps];\n  mov.u32 %%r2, 16;\n"
        "warm:\n  mul.wide.u32 %%rd1, %%r0, 4;\n  add.u64 %%rd1, %%rd0, %%rd1;\n  ld.volatile.global.u32 %%r0, [%%rd1];\n"
        "  sub.u32 %%r2, %%r2, 1;\n  setp.ne.u32 %%p, %%r2, 0;\n  @%%p bra warm;\n"
        "  mov.u64 %%rd2, %%globaltimer;\n  mov.u64 %%rd3, %%clock64;\n"
        "again:\n  mul.wide.u32 %%rd1, %%r0, 4;\n  add.u64 %%rd1, %%rd0, %%rd1;\n  ld.volatile.global.u32 %%r0, [%%rd1];\n"
        "  sub.u32 %%r1, %%r1, 1;\n  setp.ne.u32 %%p, %%r1, 0;\n  @%%p bra again;\n"
        "  mov.u64 %%rd4, %%clock64;\n  ld.param.u64 %%rd6, [out];\n  cvta.to.global.u64 %%rd6, %%rd6;\n  st.global.u32 [%%rd6], %%r0;\n"
        "  mov.u64 %%rd5, %%globaltimer;\n  sub.u64 %%rd4, %%rd4, %%rd3;\n  sub.u64 %%rd5, %%rd5, %%rd2;\n"
        "  ld.param.u64 %%rd6, [cycles];\n  cvta.to.global.u64 %%rd6, %%rd6;\n  st.global.u64 [%%rd6], %%rd4;\n"
        "  ld.param.u64 %%rd6, [ns];\n  cvta.to.global.u64 %%rd6, %%rd6;\n  st.global.u64 [%%rd6], %%rd5;\n  ret;\n}\n");
#define POINTER(register, name) "  ld.param.u64 " register ", [" name "];\n  cvta.to.global.u64 " register ", " register ";\n"
    ptx_pass("tb_copy", ".param .u64 to, .param .u64 from, .param .u64 count", POINTER("%rd4", "to") POINTER("%rd5", "from") "  ld.param.u64 %rd9, [count];\n", 4,
             "  add.u64 %rd6, %rd5, %rd8;\n  ld.global.v2.f64 {%d0, %d1}, [%rd6];\n  add.u64 %rd7, %rd4, %rd8;\n  st.global.v2.f64 [%rd7], {%d0, %d1};\n", "");
    ptx_pass("tb_triad", ".param .u64 to, .param .u64 one, .param .u64 two, .param .u64 count",
             POINTER("%rd4", "to") POINTER("%rd5", "one") POINTER("%rd10", "two") "  ld.param.u64 %rd9, [count];\n  mov.f64 %d5, 0d3FD999999999999A;\n", 3,
             "  add.u64 %rd6, %rd5, %rd8;\n  ld.global.f64 %d0, [%rd6];\n  add.u64 %rd7, %rd10, %rd8;\n  ld.global.f64 %d1, [%rd7];\n"
             "  fma.rn.f64 %d2, %d1, %d5, %d0;\n  add.u64 %rd7, %rd4, %rd8;\n  st.global.f64 [%rd7], %d2;\n", "");
    ptx_pass("tb_read", ".param .u64 from, .param .u64 count, .param .u64 out", POINTER("%rd4", "from") POINTER("%rd5", "out") "  ld.param.u64 %rd9, [count];\n", 4,
             "  add.u64 %rd6, %rd4, %rd8;\n  ld.global.v2.f64 {%d0, %d1}, [%rd6];\n  add.f64 %d6, %d6, %d0;\n  add.f64 %d6, %d6, %d1;\n",
             /* the sum is kept, so that no compiler leaves the loads out; it never has this value */
             "  setp.neu.f64 %p, %d6, 0d3FF3C083126E978D;\n  @%p bra end;\n  st.global.f64 [%rd5], %d6;\nend:\n");
    ptx_pass("tb_write", ".param .u64 to, .param .u64 count", POINTER("%rd4", "to") "  ld.param.u64 %rd9, [count];\n  mov.f64 %d0, 0d3FF0000000000000;\n", 4,
             "  add.u64 %rd6, %rd4, %rd8;\n  st.global.v2.f64 [%rd6], {%d0, %d0};\n", "");
    /* one element of a product of n x n matrices a thread */
    ptx(".visible .entry tb_matmul(.param .u64 one, .param .u64 two, .param .u64 out, .param .u32 n)\n{\n%s  .reg .f32 %%f<4>;\n", GRID);
    ptx("  ld.param.u32 %%r4, [n];\n  cvt.u64.u32 %%rd3, %%r4;\n  mul.lo.u64 %%rd5, %%rd3, %%rd3;\n  setp.ge.u64 %%p, %%rd0, %%rd5;\n  @%%p bra end;\n"
        "  div.u64 %%rd6, %%rd0, %%rd3;\n  rem.u64 %%rd7, %%rd0, %%rd3;\n"
        "  ld.param.u64 %%rd8, [one];\n  cvta.to.global.u64 %%rd8, %%rd8;\n  mul.lo.u64 %%rd6, %%rd6, %%rd3;\n  shl.b64 %%rd6, %%rd6, 2;\n  add.u64 %%rd8, %%rd8, %%rd6;\n"
        "  ld.param.u64 %%rd9, [two];\n  cvta.to.global.u64 %%rd9, %%rd9;\n  shl.b64 %%rd7, %%rd7, 2;\n  add.u64 %%rd9, %%rd9, %%rd7;\n  shl.b64 %%rd10, %%rd3, 2;\n"
        "  mov.f32 %%f0, 0f00000000;\nagain:\n  ld.global.f32 %%f1, [%%rd8];\n  ld.global.f32 %%f2, [%%rd9];\n  fma.rn.f32 %%f0, %%f1, %%f2, %%f0;\n"
        "  add.u64 %%rd8, %%rd8, 4;\n  add.u64 %%rd9, %%rd9, %%rd10;\n  sub.u32 %%r4, %%r4, 1;\n  setp.ne.u32 %%p, %%r4, 0;\n  @%%p bra again;\n"
        "  ld.param.u64 %%rd11, [out];\n  cvta.to.global.u64 %%rd11, %%rd11;\n  shl.b64 %%rd12, %%rd0, 2;\n  add.u64 %%rd11, %%rd11, %%rd12;\n  st.global.f32 [%%rd11], %%f0;\n"
        "end:\n  ret;\n}\n");
    ptx_fma("tb_fma64", "f64", 3, "0d3FEFF7CED916872B", "0d3FE0000000000000");
    ptx_fma("tb_fma32", "f32", 2, "0f3F7FBE77", "0f3F000000");
    return ptx_text;
}
