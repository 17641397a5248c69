// ops_print.c - print: the lanes of a warp one after the other, warps as they are scheduled, blocks
// in the order of the grid. So the order is the same each time for one schedule and seed.
#include "state.h"

#include <stdio.h>
#include <string.h>

#define LANES for (int i = 0; i < EMU_LANES; i++)

EmuResult emu_op_PRINT_ARG(EmuWarp *w, const EmuOp *op, u32 mask)
{
    const EmuOpnd *o = &op->o[0];
    if (w->cta->run->hazards) emu_read_regs(w, op, o, mask, true);
    LANES {
        if (!(mask >> i & 1)) continue;
        u64 *to = &w->print[op->n % PRINT_MAX_ARGS][i];
        if (op->type == TT_F32) {
            double d = f32_of_bits(emu_reg(w, o)[i]);
            memcpy(to, &d, sizeof d);
        } else {
            *to = emu_reg64(w, o)[i];
        }
    }
    return RUN_NEXT;
}

// %lld, %llu, %g and %%; anything else stands for itself.
static void print_lane(const EmuWarp *w, const char *text, int lane, Buf *out)
{
    int n = 0;
    for (const char *c = text; *c; c++) {
        u64 v = n < PRINT_MAX_ARGS ? w->print[n][lane] : 0;
        double d;
        memcpy(&d, &v, sizeof d);
        if (*c != '%') {
            buf_putc(out, *c);
        } else if (c[1] == 'g') {
            buf_printf(out, "%g", d);
            n++, c++;
        } else if (!strncmp(c, "%lld", 4)) {
            buf_printf(out, "%lld", (long long)v);
            n++, c += 3;
        } else if (!strncmp(c, "%llu", 4)) {
            buf_printf(out, "%llu", (unsigned long long)v);
            n++, c += 3;
        } else {
            buf_putc(out, '%');
            c += c[1] == '%';
        }
    }
}

EmuResult emu_op_PRINT(EmuWarp *w, const EmuOp *op, u32 mask)
{
    enum { PRINTED_MAX = 1 << 24 }; // a loop may print without end
    const EmuRun *r = w->cta->run;
    Buf *out = r->launch->printed;
    i64 k = op->o[0].imm;
    if (!out || k < 0 || k >= r->fn->texts.n) return RUN_NEXT;
    LANES if ((mask >> i & 1) && out->n < PRINTED_MAX) print_lane(w, r->fn->texts.at[k], i, out);
    return RUN_NEXT;
}
