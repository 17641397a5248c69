// machine.c - assembles and audits. A slot that is handed back with the policy `delay` relies on
// where the assembler put the uses of what was read from it; only its output tells.
#include "machine.h"

#include "../verify/audit.h"
#include "ptxas.h"

static bool audited(Compilation *c, const Buf *code)
{
    Cubin cubin = {0};
    AuditOptions how = {.ptx = c->ptx.s, .closed = true};
    const char *why = cubin_read(c->arena, (const u8 *)code->s, code->n, &cubin);
    if (why) {
        diag_error(c->diag, (Loc){0}, NULL, "cannot audit the machine code of %s: %s", c->path,
                   why);
        return false;
    }
    for (int i = 0; i < cubin.texts.n; i++) {
        AuditKernel k;
        audit_text(c->arena, &cubin.texts.at[i], &how, &k);
        if (!audit_findings(&k)) continue;
        Buf text = {0};
        audit_print(&k, &text);
        diag_error(c->diag, (Loc){0}, "use the policy proxy",
                   "the machine code of %s did not pass the audit, which the policy `delay` "
                   "needs:\n%s",
                   c->path, text.s);
        buf_free(&text);
        return false;
    }
    return true;
}

bool cli_machine_code(Compilation *c, Buf *cubin)
{
    if (!ptxas_is_here()) {
        diag_error(c->diag, (Loc){0}, "it comes with the CUDA toolkit; or use the policy proxy",
                   "the machine code of %s must be audited, and there is no ptxas on PATH to make "
                   "it",
                   c->path);
        return false;
    }
    Buf report = {0};
    const char *why = ptxas_run(c->arena, c->ptx.s ? c->ptx.s : "", c->ptx.n, cubin, &report);
    if (why) diag_error(c->diag, (Loc){0}, NULL, "%s: %s", c->path, why);
    buf_free(&report);
    return !why && audited(c, cubin);
}

bool cli_code(Compilation *c, bool gpu, Buf *cubin, RtCode *out)
{
    bool audit = gpu && c->tile && c->tile->delayed; // a .thr file has no tile IR
    if (audit && !cli_machine_code(c, cubin)) return false;
    buf_putc(&c->ptx, '\0'); // ends the text for the driver
    *out = (RtCode){.name = c->path,
                    .ptx = c->ptx.s,
                    .ptx_bytes = c->ptx.n - 1,
                    .cubin = cubin->n ? cubin->s : NULL,
                    .cubin_bytes = cubin->n,
                    .thread = c->thread};
    return true;
}
