// cuda_mem.c - memory, asynchronous copies and barriers of the CUDA printer. Each is a function
// around one PTX instruction: the addresses of the thread IR are numbers, and the orders that the
// program counts on are those of the instructions.
//
// In: one statement of the tree. Out: its call, and at the first use of a kind the function, whose
// name spells all that is fixed in the instruction. Shared addresses are 32 bits (constraint r),
// global ones 64 (l). Everything here is volatile and clobbers memory: other threads, the TMA unit
// and the tensor cores touch the same bytes without the compiler knowing.
#include "cuda_impl.h"

#include <stdio.h>

// Pointers become addresses of the global window, as the loads and stores here want them.
void cu_ldparam(Cuda *x, const CudaStmt *s)
{
    const Operand *k = &s->op.opnd[1];
    const char *name = x->param_name[k->reg];
    ParamKind kind = x->fn->params.at[k->reg].kind;
    if (kind == PARAM_PTR) cu_assign(x, s, "__cvta_generic_to_global(%s)", name);
    else if (kind == PARAM_F32 && thread_type_class[s->op.type] == RC_B32)
        cu_assign(x, s, "__float_as_uint(%s)", name);
    else cu_assign(x, s, "%s", name);
}

// ---- plain accesses -----------------------------------------------------------------------------

// The parts of an access's spelling, which together name its helper.
typedef struct {
    const char *space, *width, *type; // "shared", ".v2", "b32"
    RegClass class;                   // of the registers
    bool shared;
} Access;

static Access access_of(const ThreadOp *op, const Operand *regs, const Cuda *x)
{
    Access a = {.shared = op->op == OP_LDS || op->op == OP_STS};
    a.space = a.shared ? "shared" : "global";
    a.width = op->n == 4 ? ".v4" : op->n == 2 ? ".v2" : "";
    a.type = op->type == TT_B8 ? "u8" : thread_type_name[op->type];
    a.class = (RegClass)x->fn->regs.at[regs->reg].class;
    return a;
}

// ptx_ld_shared_v2_b32: space, width and type, so that equal accesses share one function.
static const char *access_name(Cuda *x, const char *what, const Access *a)
{
    // b32 moves floats too; the function is then one for floats.
    const char *type = a->class == RC_F32 ? "f32" : a->type;
    return cu_text(x, "ptx_%s_%s_%s%s%s", what, a->space, *a->width ? a->width + 1 : "",
                     *a->width ? "_" : "", type);
}

// Vectors come back through references. Always volatile, with memory clobbered: other threads and
// the TMA unit write what is read here, and the program's order of accesses is the one that was
// checked.
static void define_load(Cuda *x, const ThreadOp *op, const Access *a, const char *name)
{
    const char *address = a->shared ? "uint32_t" : "uint64_t", *type = cu_class[a->class];
    char c = cu_constraint[a->class], ca = a->shared ? 'r' : 'l';
    if (op->n == 1) {
        cu_define(x,
                    CUDA_FUNCTION "%s %s(%s at)\n{\n    %s d;\n"
                    "    asm volatile(\"ld.%s.%s %%0, [%%1];\" : \"=%c\"(d) : \"%c\"(at) : "
                    "\"memory\");\n    return d;\n}\n",
                    type, name, address, type, a->space, a->type, c, ca);
        return;
    }
    Buf args = {0}, list = {0}, outs = {0};
    for (int i = 0; i < op->n; i++) {
        buf_printf(&args, ", %s &d%d", type, i);
        buf_printf(&list, "%s%%%d", i ? ", " : "", i);
        buf_printf(&outs, "%s\"=%c\"(d%d)", i ? ", " : "", c, i);
    }
    cu_define(x,
                CUDA_FUNCTION "void %s(%s at%s)\n{\n"
                "    asm volatile(\"ld.%s%s.%s {%s}, [%%%d];\"\n        : %s : \"%c\"(at) : "
                "\"memory\");\n}\n",
                name, address, args.s, a->space, a->width, a->type, list.s, op->n, outs.s, ca);
    buf_free(&args);
    buf_free(&list);
    buf_free(&outs);
}

// One value is assigned, so that it may be a const; several go out through references.
void cu_load(Cuda *x, const CudaStmt *s)
{
    const ThreadOp *op = &s->op;
    Access a = access_of(op, &op->opnd[0], x);
    const char *name = access_name(x, "ld", &a), *at = cu_address(x, &op->opnd[1]);
    if (cu_need(x, name)) define_load(x, op, &a, name);
    if (op->n == 1) {
        cu_assign(x, s, "%s(%s)", name, at);
        return;
    }
    const char *args = at;
    for (int i = 0; i < op->n; i++)
        args = cu_text(x, "%s, %s", args, cu_element(x, &op->opnd[0], i));
    cu_call(x, s, "%s(%s)", name, args);
}

// The mirror of cu_load: address first, then the values.
void cu_store(Cuda *x, const CudaStmt *s)
{
    const ThreadOp *op = &s->op;
    Access a = access_of(op, &op->opnd[2], x);
    const char *name = access_name(x, "st", &a), *args = cu_address(x, &op->opnd[0]);
    for (int i = 0; i < op->n; i++)
        args = cu_text(x, "%s, %s", args, cu_element(x, &op->opnd[2], i));
    if (cu_need(x, name)) {
        const char *type = cu_class[a.class];
        Buf params = {0}, list = {0}, ins = {0};
        for (int i = 0; i < op->n; i++) {
            buf_printf(&params, ", %s s%d", type, i);
            buf_printf(&list, "%s%%%d", i ? ", " : "", i + 1);
            buf_printf(&ins, ", \"%c\"(s%d)", cu_constraint[a.class], i);
        }
        // PTX wants braces around a vector and none around one register.
        bool many = op->n > 1;
        cu_define(x,
                    CUDA_FUNCTION "void %s(%s at%s)\n{\n"
                    "    asm volatile(\"st.%s%s.%s [%%0], %s%s%s;\"\n        :: \"%c\"(at)%s : "
                    "\"memory\");\n}\n",
                    name, a.shared ? "uint32_t" : "uint64_t", params.s, a.space, a.width, a.type,
                    many ? "{" : "", list.s, many ? "}" : "", a.shared ? 'r' : 'l', ins.s);
        buf_free(&params);
        buf_free(&list);
        buf_free(&ins);
    }
    cu_call(x, s, "%s(%s)", name, args);
}

// The values are named until the print that takes them, which follows at once.
void cu_print_arg(Cuda *x, const CudaStmt *s)
{
    const ThreadOp *op = &s->op;
    const char *v = op->type == TT_F32   ? cu_text(x, "(double)%s", cu_src(x, &op->opnd[0], TT_F32))
                    : op->type == TT_U64 ? cu_src(x, &op->opnd[0], TT_U64)
                                         : cu_signed(x, &op->opnd[0], TT_S64);
    if (op->type == TT_U64) v = cu_text(x, "(unsigned long long)%s", v);
    if (op->type == TT_S64) v = cu_text(x, "(long long)%s", v);
    x->print_arg[op->n] = v;
}

void cu_print_text(Cuda *x, const CudaStmt *s)
{
    const char *text = x->fn->texts.at[s->op.opnd[0].base];
    Buf b = {0};
    int n = 0;
    for (const char *c = text; *c; c++) {
        if (*c == '\n')
            buf_puts(&b, "\\n");
        else if (*c == '"' || *c == '\\')
            buf_printf(&b, "\\%c", *c);
        else if ((u8)*c < 32 || (u8)*c > 126)
            buf_printf(&b, "\\%03o", (u8)*c);
        else
            buf_putc(&b, *c);
        if (*c != '%') continue;
        if (c[1] == '%') buf_putc(&b, *++c);
        else n++;
    }
    const char *args = cu_text(x, "\"%s\"", b.s ? b.s : "");
    buf_free(&b);
    for (int i = 0; i < n && i < PRINT_MAX_ARGS; i++)
        args = cu_text(x, "%s, %s", args, x->print_arg[i] ? x->print_arg[i] : "0ll");
    cu_call(x, s, "printf(%s)", args);
}

// One function per space, operation and type; it returns what stood there before.
void cu_atomic(Cuda *x, const CudaStmt *s)
{
    const ThreadOp *op = &s->op;
    bool shared = op->op == OP_ATOMS || op->op == OP_CASS;
    bool cas = op->op == OP_CASS || op->op == OP_CASG;
    AtomicKind kind = cas ? ATOM_CAS : (AtomicKind)op->n;
    ThreadType type = kind == ATOM_ADD && op->type == TT_S64 ? TT_U64 : (ThreadType)op->type;
    RegClass class = (RegClass)x->fn->regs.at[op->opnd[0].reg].class;
    const char *space = shared ? "shared" : "global", *c = cu_class[class];
    const char *name = cu_text(x, "ptx_atom_%s_%s_%s", space, atomic_name[kind],
                               class == RC_F32 ? "f32" : thread_type_name[type]);
    if (cu_need(x, name))
        cu_define(x,
                  CUDA_FUNCTION "%s %s(%s at, %s a%s%s)\n{\n    %s d;\n"
                  "    asm volatile(\"atom.%s.%s.%s %%0, [%%1], %%2%s;\"\n"
                  "        : \"=%c\"(d) : \"%c\"(at), \"%c\"(a)%s%s%s : \"memory\");\n"
                  "    return d;\n}\n",
                  c, name, shared ? "uint32_t" : "uint64_t", c, cas ? ", " : "",
                  cas ? cu_text(x, "%s b", c) : "", c, space, atomic_name[kind],
                  thread_type_name[type], cas ? ", %3" : "", cu_constraint[class],
                  shared ? 'r' : 'l', cu_constraint[class], cas ? ", \"" : "",
                  cas ? cu_text(x, "%c", cu_constraint[class]) : "", cas ? "\"(b)" : "");
    const char *args = cu_text(x, "%s, %s", cu_address(x, &op->opnd[1]),
                               cu_src(x, &op->opnd[3], type));
    if (cas) args = cu_text(x, "%s, %s", args, cu_src(x, &op->opnd[4], type));
    cu_assign(x, s, "%s(%s)", name, args);
}

// ---- matrices -----------------------------------------------------------------------------------

// ldmatrix and stmatrix of 1, 2 or 4 matrices: registers by reference or by value.
static void matrix(Cuda *x, const CudaStmt *s, const Operand *regs, const Operand *address)
{
    const ThreadOp *op = &s->op;
    bool load = op->op == OP_LDMATRIX, trans = op->flags & OPF_TRANS;
    const char *name = cu_text(x, "ptx_%s_x%d%s", load ? "ldmatrix" : "stmatrix", op->n,
                                 trans ? "_trans" : "");
    if (cu_need(x, name)) {
        Buf params = {0}, list = {0}, operands = {0};
        for (int i = 0; i < op->n; i++) {
            buf_printf(&params, ", uint32_t %sm%d", load ? "&" : "", i);
            buf_printf(&list, "%s%%%d", i ? ", " : "", load ? i : i + 1);
            buf_printf(&operands, "%s\"%sr\"(m%d)", i ? ", " : "", load ? "=" : "", i);
        }
        const char *instruction =
            cu_text(x, "%s.sync.aligned.m8n8.x%d%s.shared.b16", load ? "ldmatrix" : "stmatrix",
                      op->n, trans ? ".trans" : "");
        if (load)
            cu_define(x,
                        CUDA_FUNCTION "void %s(uint32_t at%s)\n{\n"
                        "    asm volatile(\"%s {%s}, [%%%d];\"\n        : %s : \"r\"(at) : "
                        "\"memory\");\n}\n",
                        name, params.s, instruction, list.s, op->n, operands.s);
        else
            cu_define(x,
                        CUDA_FUNCTION "void %s(uint32_t at%s)\n{\n"
                        "    asm volatile(\"%s [%%0], {%s};\"\n        :: \"r\"(at), %s : "
                        "\"memory\");\n}\n",
                        name, params.s, instruction, list.s, operands.s);
        buf_free(&params);
        buf_free(&list);
        buf_free(&operands);
    }
    const char *args = cu_address(x, address);
    for (int i = 0; i < op->n; i++) args = cu_text(x, "%s, %s", args, cu_element(x, regs, i));
    cu_call(x, s, "%s(%s)", name, args);
}

// Whole warps only: lane 8i + r gives the address of row r of matrix i.
void cu_matrix_load(Cuda *x, const CudaStmt *s) { matrix(x, s, &s->op.opnd[0], &s->op.opnd[1]); }

void cu_matrix_store(Cuda *x, const CudaStmt *s) { matrix(x, s, &s->op.opnd[2], &s->op.opnd[0]); }

// ---- asynchronous copies ------------------------------------------------------------------------

// `bytes` is how many of the 4, 8 or 16 the source has; the unit fills the rest with zeros.
void cu_cpasync(Cuda *x, const CudaStmt *s)
{
    const ThreadOp *op = &s->op;
    const char *name = cu_text(x, "ptx_cp_async_%d", op->n);
    if (cu_need(x, name))
        cu_define(x,
                    CUDA_FUNCTION "void %s(uint32_t to, uint64_t from, uint32_t bytes)\n{\n"
                    "    asm volatile(\"cp.async.%s.shared.global [%%0], [%%1], %d, %%2;\"\n"
                    "        :: \"r\"(to), \"l\"(from), \"r\"(bytes) : \"memory\");\n}\n",
                    name, op->n == 16 ? "cg" : "ca", op->n);
    cu_call(x, s, "%s(%s, %s, %s)", name, cu_address(x, &op->opnd[0]),
              cu_address(x, &op->opnd[2]), cu_src(x, &op->opnd[4], TT_U32));
}

// Coordinates of a tensor copy: as arguments, as parameters, as operands of the assembly.
static const char *coordinates(Cuda *x, const Operand *c, int n)
{
    const char *s = "";
    for (int i = 0; i < n; i++)
        s = cu_text(x, "%s%s%s", s, i ? ", " : "", cu_src(x, &c[i], TT_U32));
    return s;
}

// The parameters, the place holders and the operands for the same n coordinates c0, c1, ...
static const char *coordinate_params(Cuda *x, int n)
{
    const char *s = "";
    for (int i = 0; i < n; i++) s = cu_text(x, "%s, uint32_t c%d", s, i);
    return s;
}

static const char *coordinate_list(Cuda *x, int first, int n)
{
    const char *s = "{";
    for (int i = 0; i < n; i++) s = cu_text(x, "%s%s%%%d", s, i ? ", " : "", first + i);
    return cu_text(x, "%s}", s);
}

static const char *coordinate_operands(Cuda *x, int n)
{
    const char *s = "";
    for (int i = 0; i < n; i++) s = cu_text(x, "%s, \"r\"(c%d)", s, i);
    return s;
}

// To all blocks of the cluster: a mask with a bit for each is the last operand.
static void multicast_load(Cuda *x, const CudaStmt *s)
{
    const ThreadOp *op = &s->op;
    int n = op->n;
    const char *name = cu_text(x, "ptx_tma_load_%dd_multicast", n);
    if (cu_need(x, name))
        cu_define(x,
                    CUDA_FUNCTION "void %s(uint32_t to, const CUtensorMap *map%s, uint32_t "
                    "barrier, uint16_t blocks)\n{\n"
                    "    asm volatile(\n"
                    "        \"cp.async.bulk.tensor.%dd.shared::cluster.global.mbarrier::"
                    "complete_tx::bytes.multicast::cluster \"\n"
                    "        \"[%%0], [%%1, %s], [%%%d], %%%d;\"\n"
                    "        :: \"r\"(to), \"l\"((uint64_t)map)%s, \"r\"(barrier), "
                    "\"h\"(blocks) : \"memory\");\n}\n",
                    name, coordinate_params(x, n), n, coordinate_list(x, 2, n), n + 2, n + 3,
                    coordinate_operands(x, n));
    cu_call(x, s, "%s(%s, &%s, %s, %s, %u)", name, cu_address(x, &op->opnd[0]),
              x->param_name[op->opnd[2].reg], coordinates(x, &op->opnd[3], n),
              cu_address(x, &op->opnd[3 + n]), (1u << x->fn->cluster) - 1);
}

// Operands of the assembly: destination, map, coordinates, barrier, policy. The map is passed by
// its address among the kernel's parameters, where __grid_constant__ keeps it.
void cu_tma_load(Cuda *x, const CudaStmt *s)
{
    const ThreadOp *op = &s->op;
    int n = op->n;
    // The second-level cache keeps the tile longer or drops it first; the policy is an operand.
    const char *hint = op->flags & OPF_EVICT_FIRST ? "evict_first"
                       : op->flags & OPF_EVICT_LAST ? "evict_last" : NULL;
    x->policy_first |= (op->flags & OPF_EVICT_FIRST) != 0;
    x->policy_last |= (op->flags & OPF_EVICT_LAST) != 0;
    const char *name = cu_text(x, "ptx_tma_load_%dd%s", n, hint ? "_hint" : "");
    if (op->flags & OPF_MULTICAST) {
        multicast_load(x, s);
        return;
    }
    if (cu_need(x, name))
        cu_define(x,
                    CUDA_FUNCTION "void %s(uint32_t to, const CUtensorMap *map%s, uint32_t "
                    "barrier%s)\n{\n"
                    "    asm volatile(\n"
                    "        \"cp.async.bulk.tensor.%dd.shared::cluster.global.mbarrier::"
                    "complete_tx::bytes%s \"\n"
                    "        \"[%%0], [%%1, %s], [%%%d]%s;\"\n"
                    "        :: \"r\"(to), \"l\"((uint64_t)map)%s, \"r\"(barrier)%s : "
                    "\"memory\");\n}\n",
                    name, coordinate_params(x, n), hint ? ", uint64_t policy" : "", n,
                    hint ? ".L2::cache_hint" : "", coordinate_list(x, 2, n), n + 2,
                    hint ? cu_text(x, ", %%%d", n + 3) : "", coordinate_operands(x, n),
                    hint ? ", \"l\"(policy)" : "");
    cu_call(x, s, "%s(%s, &%s, %s, %s%s%s)", name, cu_address(x, &op->opnd[0]),
              x->param_name[op->opnd[2].reg], coordinates(x, &op->opnd[3], n),
              cu_address(x, &op->opnd[3 + n]), hint ? ", " : "", hint ? hint : "");
}

// The thread that issues it must be the one that commits and waits for the group.
void cu_tma_store(Cuda *x, const CudaStmt *s)
{
    const ThreadOp *op = &s->op;
    int n = op->n;
    const char *name = cu_text(x, "ptx_tma_store_%dd", n);
    if (cu_need(x, name))
        cu_define(x,
                    CUDA_FUNCTION "void %s(const CUtensorMap *map%s, uint32_t from)\n{\n"
                    "    asm volatile(\n"
                    "        \"cp.async.bulk.tensor.%dd.global.shared::cta.bulk_group [%%0, %s], "
                    "[%%%d];\"\n"
                    "        :: \"l\"((uint64_t)map)%s, \"r\"(from) : \"memory\");\n}\n",
                    name, coordinate_params(x, n), n, coordinate_list(x, 1, n), n + 1,
                    coordinate_operands(x, n));
    cu_call(x, s, "%s(&%s, %s, %s)", name, x->param_name[op->opnd[0].reg],
              coordinates(x, &op->opnd[1], n), cu_address(x, &op->opnd[1 + n]));
}

void cu_tma_prefetch(Cuda *x, const CudaStmt *s)
{
    if (cu_need(x, "ptx_tma_prefetch"))
        cu_define(x, CUDA_FUNCTION "void ptx_tma_prefetch(const CUtensorMap *map)\n{\n"
                    "    asm volatile(\"prefetch.tensormap [%%0];\" :: \"l\"((uint64_t)map) : "
                    "\"memory\");\n}\n");
    cu_call(x, s, "ptx_tma_prefetch(&%s)", x->param_name[s->op.opnd[0].reg]);
}

// A branch that is never taken and that the assembler must take seriously.
void cu_pin(Cuda *x, const CudaStmt *s)
{
    if (cu_need(x, "ptx_pin"))
        cu_define(x, CUDA_FUNCTION "void ptx_pin(bool never)\n{\n"
                    "    asm volatile(\"{ .reg .pred p; setp.ne.u32 p, %%0, 0;\\n again: "
                    "@!p bra done; nanosleep.u32 20; bra again;\\n done: }\"\n"
                    "        :: \"r\"((uint32_t)never) : \"memory\");\n}\n");
    cu_call(x, s, "ptx_pin(%s)", cu_src(x, &s->op.opnd[0], TT_PRED));
}

// A loop on the clock of the multiprocessor; the difference is right across its wrap.
void cu_delay(Cuda *x, const CudaStmt *s)
{
    if (cu_need(x, "ptx_delay"))
        cu_define(x, CUDA_FUNCTION "void ptx_delay(uint32_t cycles)\n{\n"
                    "    uint32_t since = (uint32_t)clock();\n"
                    "    while ((uint32_t)clock() - since < cycles) {}\n}\n");
    cu_call(x, s, "ptx_delay(%s)", cu_src(x, &s->op.opnd[0], TT_U32));
}

// `clock()` alone may move across memory operations and barriers.
void cu_clock(Cuda *x, const CudaStmt *s)
{
    if (cu_need(x, "ptx_clock"))
        cu_define(x, CUDA_FUNCTION "uint32_t ptx_clock()\n{\n    uint32_t d;\n"
                    "    asm volatile(\"mov.u32 %%0, %%%%clock;\" : \"=r\"(d) : : \"memory\");\n"
                    "    return d;\n}\n");
    cu_assign(x, s, "ptx_clock()");
}

// The braces keep the labels of each copy apart. try_wait sleeps for a while by itself.
void cu_mbar_wait(Cuda *x, const CudaStmt *s)
{
    if (cu_need(x, "ptx_mbar_wait"))
        cu_define(x, CUDA_FUNCTION "void ptx_mbar_wait(uint32_t barrier, uint32_t parity)\n{\n"
                    "    asm volatile(\n"
                    "        \"{ .reg .pred done;\\n\"\n"
                    "        \"again: mbarrier.try_wait.parity.shared::cta.b64 done, [%%0], "
                    "%%1;\\n\"\n"
                    "        \"@!done bra again; }\"\n"
                    "        :: \"r\"(barrier), \"r\"(parity) : \"memory\");\n}\n");
    cu_call(x, s, "ptx_mbar_wait(%s, %s)", cu_address(x, &s->op.opnd[0]),
              cu_src(x, &s->op.opnd[2], TT_U32));
}

// The barrier at the same place in another block of the cluster.
void cu_mbar_arrive_cluster(Cuda *x, const CudaStmt *s)
{
    bool release = s->op.flags & OPF_RELEASE;
    const char *name = release ? "ptx_mbar_arrive_cluster_release" : "ptx_mbar_arrive_cluster";
    if (cu_need(x, name))
        cu_define(x, CUDA_FUNCTION "void %s(uint32_t barrier, uint32_t block)\n{\n"
                    "    asm volatile(\n"
                    "        \"{ .reg .b32 peer; mapa.shared::cluster.u32 peer, %%0, %%1;\\n\"\n"
                    "        \"mbarrier.arrive%s.shared::cluster.b64 _, [peer]; }\"\n"
                    "        :: \"r\"(barrier), \"r\"(block) : \"memory\");\n}\n",
                    name, release ? ".release.cluster" : "");
    cu_call(x, s, "%s(%s, %s)", name, cu_address(x, &s->op.opnd[0]),
              cu_src(x, &s->op.opnd[2], TT_U32));
}
