// explain_ptxas.c - what the assembler makes of the PTX, where it is on PATH: registers, spills and
// barriers of each kernel, and how many CTAs an SM holds at once.
//
// Input: the PTX. Output: one line a kernel, or one that says why there is none. The figures are
// read off the report of `ptxas -v`.
#include "explain.h"
#include "ptxas.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// An SM of Hopper. Registers are given to a warp in units of 256, and each quarter of the SM has
// its own file.
enum {
    SM_QUARTERS = 4, QUARTER_REGISTERS = SM_REGISTERS / SM_QUARTERS, REGISTER_UNIT = 256,
    SM_THREADS = 2048
};

static int least(int a, int b) { return a < b ? a : b; }

// CTAs that one SM holds at once, and in *why what limits them.
static int occupancy(const ThreadFn *fn, int registers, const char **why)
{
    int warps = fn->threads / 32;
    int per_warp = (registers * 32 + REGISTER_UNIT - 1) / REGISTER_UNIT * REGISTER_UNIT;
    int by_registers = per_warp ? QUARTER_REGISTERS / per_warp * SM_QUARTERS / warps : SM_CTAS;
    int by_threads = SM_THREADS / fn->threads;
    int by_shared = (int)(SMEM_SM / (fn->smem_bytes + SMEM_RESERVED));
    int n = least(least(by_registers, by_threads), least(by_shared, SM_CTAS));
    *why = n == by_shared ? "shared memory" : n == by_registers ? "registers"
         : n == by_threads ? "threads" : "the limit of an SM";
    return n;
}

// Number in front of `word` in the text, -1 when the word does not stand there.
static int number_before(const char *text, const char *end, const char *word)
{
    const char *at = strstr(text, word);
    if (!at || at >= end) return -1;
    while (at > text && at[-1] == ' ') at--;
    while (at > text && at[-1] >= '0' && at[-1] <= '9') at--;
    return atoi(at);
}

// The report of one kernel: from the line that names it to the next such line.
static void print_kernel(const ThreadFn *fn, const char *report, Buf *out)
{
    Buf key = {0};
    buf_printf(&key, "Compiling entry function '%s'", fn->name);
    const char *at = strstr(report, key.s);
    buf_free(&key);
    const char *end = at ? strstr(at + 1, "Compiling entry function") : NULL;
    if (at && !end) end = at + strlen(at);
    int registers = at ? number_before(at, end, " registers") : -1;
    if (registers < 0) {
        buf_printf(out, "  %-16s not in the report of ptxas\n", fn->name);
        return;
    }
    int stores = number_before(at, end, " bytes spill stores");
    int loads = number_before(at, end, " bytes spill loads");
    int barriers = number_before(at, end, " barriers");
    const char *why;
    int ctas = occupancy(fn, registers, &why);
    buf_printf(out, "  %-16s %d registers, ", fn->name, registers);
    if (stores > 0 || loads > 0)
        buf_printf(out, "SPILLS %d + %d bytes, ", MAX(stores, 0), MAX(loads, 0));
    else
        buf_puts(out, "no spills, ");
    buf_printf(out, "%d barrier%s; %d CTA%s (%d warps) per SM, limited by %s\n",
               MAX(barriers, 0), barriers == 1 ? "" : "s", ctas, ctas == 1 ? "" : "s",
               ctas * fn->threads / 32, why);
}

void explain_assemble(Arena *a, const ThreadModule *m, const char *ptx, size_t n, Buf *out)
{
    buf_puts(out, "\nassembler\n");
    if (!ptxas_is_here()) {
        buf_puts(out, "  ptxas is not on PATH: "
                      "registers, spills and occupancy are not known here\n");
        return;
    }
    Buf report = {0};
    const char *why = ptxas_run(a, ptx, n, NULL, &report);
    if (why)
        buf_printf(out, "  %s\n", why);
    else
        for (int i = 0; i < m->fns.n; i++) print_kernel(m->fns.at[i], report.s, out);
    buf_free(&report);
}
