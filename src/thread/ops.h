// ops.h - one row per operation of the thread IR. Everything derives from these rows: the enum, the
// text form, the checker's operand rules, the PTX printer and the emulator's dispatch table
// (emu_op_<id> must exist for each row, so an operation without meaning does not link).
//
// Columns:
//   id      OP_<id>
//   name    spelling in the text form; the type suffix follows it (add.s32)
//   sig     operands in order, one letter each:
//             d  destination register, op's type        s  source register or immediate, op's type
//             t  source of the second type (cvt)        x  source b32/s32 register or immediate
//             P  destination predicate                  p  source predicate
//             F  destination register range             R  read/write register range
//             r  source register range                  L  source, b64 (descriptor)
//             S  shared address, with a MemRef          G  global address, with a MemRef
//             B  mbarrier address, with a MemRef        T  tensor map (kernel parameter)
//             C  coordinates: op.n operands, b32        K  kernel parameter
//             *  a region: its operands are described at ThreadOp (thread.h)
//   types   which type suffixes are legal: letters  i: s32 u32  l: s64 u64  b: b16 b32 b64
//           f: f32  q: pred  h: f16/bf16 packed pairs  -: no suffix
//   effect  PURE no effect but its destination · LOAD reads memory · STORE writes memory
//           ASYNC starts an asynchronous access · SYNC orders or waits · CTRL structure
//   scope   whom it concerns: THREAD, WARP (all lanes converge), GROUP (4 warps), CTA, CLUSTER, GPU
//   ptx     first PTX version that has it, times 10
//   form    PTX spelling: %0..%9 operands, %t type, %u second type, %n attribute n, %c comparison;
//           "!" : printed by a function of its own
#ifndef BATON_THREAD_OPS_H
#define BATON_THREAD_OPS_H

#define THREAD_OPS(X)                                                                             \
    /* id            name             sig     types   effect scope   ptx  form */                 \
    X(MOV,           "mov",           "ds",   "ilbfq", PURE, THREAD, 10, "mov.%t %0, %1;")        \
    X(ADD,           "add",           "dss",  "ilf",   PURE, THREAD, 10, "!")                     \
    X(SUB,           "sub",           "dss",  "ilf",   PURE, THREAD, 10, "!")                     \
    X(MUL,           "mul",           "dss",  "ilf",   PURE, THREAD, 10, "!")                     \
    X(MULWIDE,       "mul.wide",      "dxx",  "l",     PURE, THREAD, 10, "!")                     \
    X(MAD,           "mad",           "dsss", "ilf",   PURE, THREAD, 10, "!")                     \
    X(DIV,           "div",           "dss",  "ilf",   PURE, THREAD, 10, "!")                     \
    X(REM,           "rem",           "dss",  "il",    PURE, THREAD, 10, "rem.%t %0, %1, %2;")    \
    X(MIN,           "min",           "dss",  "ilf",   PURE, THREAD, 10, "min.%t %0, %1, %2;")    \
    X(MAX,           "max",           "dss",  "ilf",   PURE, THREAD, 10, "max.%t %0, %1, %2;")    \
    X(NEG,           "neg",           "ds",   "ilf",   PURE, THREAD, 10, "neg.%t %0, %1;")        \
    X(ABS,           "abs",           "ds",   "ilf",   PURE, THREAD, 10, "abs.%t %0, %1;")        \
    X(AND,           "and",           "dss",  "bq",    PURE, THREAD, 10, "and.%t %0, %1, %2;")    \
    X(OR,            "or",            "dss",  "bq",    PURE, THREAD, 10, "or.%t %0, %1, %2;")     \
    X(XOR,           "xor",           "dss",  "bq",    PURE, THREAD, 10, "xor.%t %0, %1, %2;")    \
    X(NOT,           "not",           "ds",   "bq",    PURE, THREAD, 10, "not.%t %0, %1;")        \
    X(SHL,           "shl",           "dsx",  "b",     PURE, THREAD, 10, "shl.%t %0, %1, %2;")    \
    X(SHR,           "shr",           "dsx",  "il",    PURE, THREAD, 10, "shr.%t %0, %1, %2;")    \
    X(EX2,           "ex2",           "ds",   "f",     PURE, THREAD, 10, "ex2.approx.ftz.f32 %0, %1;")   \
    X(LG2,           "lg2",           "ds",   "f",     PURE, THREAD, 10, "lg2.approx.ftz.f32 %0, %1;")   \
    X(RCP,           "rcp",           "ds",   "f",     PURE, THREAD, 10, "rcp.approx.ftz.f32 %0, %1;")   \
    X(RSQRT,         "rsqrt",         "ds",   "f",     PURE, THREAD, 10, "rsqrt.approx.ftz.f32 %0, %1;") \
    X(SQRT,          "sqrt",          "ds",   "f",     PURE, THREAD, 10, "sqrt.rn.f32 %0, %1;")   \
    X(TANH,          "tanh",          "ds",   "f",     PURE, THREAD, 70, "tanh.approx.f32 %0, %1;") \
    X(SETP,          "setp",          "Pss",  "ilf",   PURE, THREAD, 10, "setp.%c.%t %0, %1, %2;") \
    X(SELP,          "selp",          "dssp", "ilbf",  PURE, THREAD, 10, "selp.%t %0, %1, %2, %3;") \
    X(CVT,           "cvt",           "dt",   "*",     PURE, THREAD, 78, "!")                     \
    X(CVTPACK,       "cvt.pack",      "dss",  "h",     PURE, THREAD, 78, "!")                     \
    X(PACK,          "pack",          "dss",  "b",     PURE, THREAD, 10, "!")                     \
    X(UNPACK,        "unpack",        "dds",  "b",     PURE, THREAD, 10, "!")                     \
    X(SHFL,          "shfl",          "dsx",  "b",     SYNC, WARP,   60, "!")                     \
    X(VOTE,          "vote.any",       "Pp",  "q",     SYNC, WARP,   60, "vote.sync.any.pred %0, %1, 0xffffffff;") \
    X(LDPARAM,       "ld.param",      "dK",   "ilbf",  PURE, THREAD, 10, "!")                     \
    X(LDS,           "ld.shared",     "FS",   "bf",    LOAD, THREAD, 10, "!")                     \
    X(STS,           "st.shared",     "Sr",   "bf",    STORE, THREAD, 10, "!")                    \
    X(LDG,           "ld.global",     "FG",   "bf",    LOAD, THREAD, 10, "!")                     \
    X(STG,           "st.global",     "Gr",   "bf",    STORE, THREAD, 10, "!")                    \
    /* read, change, write as one; the destination is what stood there before */               \
    X(ATOMS,         "atom.shared",   "dSs",   "ilbf", STORE, THREAD, 12, "!")                    \
    X(ATOMG,         "atom.global",   "dGs",   "ilbf", STORE, THREAD, 12, "!")                    \
    X(CASS,          "cas.shared",    "dSss",  "b",    STORE, THREAD, 12, "!")                    \
    X(CASG,          "cas.global",    "dGss",  "b",    STORE, THREAD, 12, "!")                    \
    X(LDMATRIX,      "ldmatrix",      "FS",   "-",     LOAD, WARP,   65, "!")                     \
    X(STMATRIX,      "stmatrix",      "Sr",   "-",     STORE, WARP,  78, "!")                     \
    X(CPASYNC,       "cp.async",      "SGx",  "-",     ASYNC, THREAD, 70, "!")                    \
    X(CPASYNC_COMMIT, "cp.async.commit", "",  "-",     SYNC, THREAD, 70, "cp.async.commit_group;") \
    X(CPASYNC_WAIT,  "cp.async.wait", "",     "-",     SYNC, THREAD, 70, "cp.async.wait_group %n;") \
    X(CPASYNC_ARRIVE, "cp.async.arrive", "B", "-",     SYNC, THREAD, 70, "cp.async.mbarrier.arrive.noinc.shared.b64 %0;") \
    X(TMA_LOAD,      "tma.load",      "STCB", "-",     ASYNC, THREAD, 80, "!")                    \
    X(TMA_STORE,     "tma.store",     "TCS",  "-",     ASYNC, THREAD, 80, "!")                    \
    X(TMA_PREFETCH,  "tma.prefetch",  "T",    "-",     PURE, THREAD, 80, "!")                     \
    X(BULK_COMMIT,   "bulk.commit",   "",     "-",     SYNC, THREAD, 80, "cp.async.bulk.commit_group;") \
    X(BULK_WAIT,     "bulk.wait",     "",     "-",     SYNC, THREAD, 80, "cp.async.bulk.wait_group %n;") \
    X(BULK_WAIT_READ, "bulk.wait.read", "",   "-",     SYNC, THREAD, 80, "cp.async.bulk.wait_group.read %n;") \
    X(MBAR_INIT,     "mbar.init",     "Bx",   "-",     SYNC, CTA,    70, "mbarrier.init.shared.b64 %0, %1;") \
    X(MBAR_ARRIVE,   "mbar.arrive",   "B",    "-",     SYNC, CTA,    80, "mbarrier.arrive.shared::cta.b64 _, %0;") \
    X(MBAR_ARRIVE_EXPECT, "mbar.arrive.expect", "Bx", "-", SYNC, CTA, 80, \
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, %0, %1;") \
    X(MBAR_EXPECT,   "mbar.expect",   "Bx",   "-",     SYNC, CTA,    80, \
      "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 %0, %1;") \
    X(MBAR_WAIT,     "mbar.wait",     "Bx",   "-",     SYNC, CTA,    80, "!")                     \
    /* An arrival at the barrier of the same place in block `x` of the cluster. */                \
    X(MBAR_ARRIVE_CLUSTER, "mbar.arrive.cluster", "Bx", "-", SYNC, CLUSTER, 80, "!")              \
    X(FENCE_PROXY,   "fence.proxy",   "",     "-",     SYNC, THREAD, 80, "fence.proxy.async.shared::cta;") \
    X(FENCE_MBAR_INIT, "fence.mbar.init", "", "-",     SYNC, CLUSTER, 80, "fence.mbarrier_init.release.cluster;") \
    X(MEMBAR,        "membar.cta",    "",     "-",     SYNC, CTA,    10, "membar.cta;")           \
    X(MEMBAR_GPU,    "membar.gl",     "",      "-",    SYNC, GPU,    10, "membar.gl;")            \
    X(PRINT_ARG,     "print.arg",     "s",     "lf",   STORE, THREAD, 20, "!")                     \
    X(PRINT,         "print",         "x",     "-",    SYNC, THREAD, 20, "!")                     \
    X(BAR_SYNC,      "bar.sync",      "xx",   "-",     SYNC, CTA,    10, "bar.sync %0, %1;")      \
    X(BAR_ARRIVE,    "bar.arrive",    "xx",   "-",     SYNC, CTA,    10, "bar.arrive %0, %1;")    \
    /* All threads of all blocks of the cluster: releases and acquires. */                        \
    X(BAR_CLUSTER,   "bar.cluster",   "",     "-",     SYNC, CLUSTER, 80,                          \
      "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;")            \
    X(BAR_WARP,      "bar.warp",      "",     "-",     SYNC, WARP,   60, "bar.warp.sync 0xffffffff;") \
    /* Nothing behind it is moved in front of it: a branch on a predicate that is never true. */   \
    X(PIN,           "pin",           "p",    "-",     SYNC, THREAD, 10, "!")                     \
    /* At least so many cycles pass; orders nothing. Stress runs put them at handoffs. */          \
    X(DELAY,         "delay",         "x",    "-",     SYNC, THREAD, 20, "!")                     \
    /* The multiprocessor's cycles so far, modulo 2^32; it may be neither moved nor repeated. */    \
    X(CLOCK,         "clock",         "d",    "i",     LOAD, THREAD, 10, "!")                     \
    X(WGMMA_FENCE,   "wgmma.fence",   "",     "-",     SYNC, GROUP,  80, "wgmma.fence.sync.aligned;") \
    X(WGMMA_SS,      "wgmma.ss",      "RLLp", "-",     ASYNC, GROUP, 80, "!")                     \
    X(WGMMA_RS,      "wgmma.rs",      "RrLp", "-",     ASYNC, GROUP, 80, "!")                     \
    X(WGMMA_COMMIT,  "wgmma.commit",  "",     "-",     SYNC, GROUP,  80, "wgmma.commit_group.sync.aligned;") \
    X(WGMMA_WAIT,    "wgmma.wait",    "",     "-",     SYNC, GROUP,  80, "wgmma.wait_group.sync.aligned %n;") \
    X(SETMAXNREG_INC, "setmaxnreg.inc", "",   "-",     SYNC, GROUP,  80, "setmaxnreg.inc.sync.aligned.u32 %n;") \
    X(SETMAXNREG_DEC, "setmaxnreg.dec", "",   "-",     SYNC, GROUP,  80, "setmaxnreg.dec.sync.aligned.u32 %n;") \
    X(EXIT,          "exit",          "",     "-",     CTRL, THREAD, 10, "ret;")                  \
    /* regions: body (and other) hold the nested operations */                                    \
    X(FOR,           "for",           "*",    "-",     CTRL, WARP,   10, "!")                     \
    X(UNROLL,        "unroll",        "*",    "-",     CTRL, THREAD, 10, "!")                     \
    X(IF,            "if",            "p",    "-",     CTRL, THREAD, 10, "!")                     \
    X(ROLE,          "role",          "*",    "-",     CTRL, GROUP,  10, "!")

typedef enum {
#define X(id, name, sig, types, effect, scope, ptx, form) OP_##id,
    THREAD_OPS(X)
#undef X
    OP_COUNT
} ThreadOpcode;

#endif
