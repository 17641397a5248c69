// machine.h - machine code of a compilation, for programs that only a looked-at one may run.
#ifndef BATON_CLI_MACHINE_H
#define BATON_CLI_MACHINE_H

#include "../../rt/rt.h"
#include "../pass.h"

// Assembles the PTX of a finished compilation with ptxas from PATH and audits what came out
// (src/verify/audit.h). False: there is no ptxas, it failed, or the audit found something; the
// reason is in the Diag. The caller frees *cubin.
bool cli_machine_code(Compilation *c, Buf *cubin);
// The code that a device takes of a finished compilation: PTX (of c->ptx, which must outlive it),
// the thread IR and, for a GPU where the handoffs need that, audited machine code. False: the
// reason is in the Diag. The caller frees *cubin after *out was used.
bool cli_code(Compilation *c, bool gpu, Buf *cubin, RtCode *out);

#endif
