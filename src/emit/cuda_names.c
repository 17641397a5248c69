// cuda_names.c - names of the CUDA text: each is the program's own where C++ allows it. Registers
// have the first choice, then parameters, then unroll variables, which live in their loop only.
//
// In: names of the thread IR, which are unique within their kind only and may be words of C++. Out:
// one name each, unique within the kernel; the same input gives the same names on every run.
#include "cuda_impl.h"

#include <ctype.h>
#include <string.h>

// Words of C++, and names that the printed text itself uses inside kernels and launchers.
// clang-format off
static const char *const reserved[] = {
    "alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break",
    "case", "catch", "char", "char16_t", "char32_t", "class", "compl", "const", "const_cast",
    "constexpr", "continue", "decltype", "default", "delete", "do", "double", "dynamic_cast",
    "else", "enum", "explicit", "export", "extern", "false", "float", "for", "friend", "goto",
    "if", "inline", "int", "long", "mutable", "namespace", "new", "noexcept", "not", "not_eq",
    "nullptr", "operator", "or", "or_eq", "private", "protected", "public", "register",
    "reinterpret_cast", "return", "short", "signed", "sizeof", "static", "static_assert",
    "static_cast", "struct", "switch", "template", "this", "thread_local", "throw", "true", "try",
    "typedef", "typeid", "typename", "typeof", "union", "unsigned", "using", "virtual", "void",
    "volatile", "wchar_t", "while", "xor", "xor_eq", "threadIdx", "blockIdx", "blockDim",
    "gridDim", "warpSize", "min", "max", "umin", "umax", "llmin", "llmax", "ullmin", "ullmax",
    "fminf", "fmaxf", "fabsf", "int16_t", "int32_t", "int64_t", "uint8_t", "uint16_t", "uint32_t",
    "uint64_t", "uintptr_t", "size_t", "main", "dim3", "stream", "linux", "unix", "NULL",
};
// clang-format on

// A fresh set: callers add their own names to it.
Map *cu_reserved(Cuda *x)
{
    Map *m = map_new(x->arena);
    for (int i = 0; i < COUNT(reserved); i++)
        map_put(m, intern(x->names, reserved[i]), (void *)reserved[i]);
    return m;
}

// Names that start like the printer's own, or that belong to the C++ implementation.
static bool taken_family(const char *name)
{
    return strncmp(name, "ptx_", 4) == 0 || strncmp(name, "baton_", 6) == 0 ||
           strncmp(name, "cuda", 4) == 0 || strncmp(name, "CU_", 3) == 0 ||
           strncmp(name, "CUtensor", 8) == 0 || name[0] == '_';
}

// The name itself, else with the suffix, else with a number; put into `taken`.
const char *cu_unique(Cuda *x, Map *taken, const char *name, const char *suffix)
{
    Buf b = {0};
    for (const char *s = name; *s; s++) buf_putc(&b, isalnum((unsigned char)*s) ? *s : '_');
    if (!b.n || isdigit((unsigned char)b.s[0])) {
        char *digits = arena_strndup(x->arena, b.n ? b.s : "", b.n);
        b.n = 0;
        buf_printf(&b, "v%s", digits);
    }
    const char *base = intern_n(x->names, b.s, b.n);
    buf_free(&b);
    if (taken_family(base)) base = intern_printf(x->names, "v_%s", base);
    while (strstr(base, "__")) { // C++ keeps such names for itself
        char *once = arena_strndup(x->arena, base, strlen(base));
        char *at = strstr(once, "__");
        memmove(at, at + 1, strlen(at));
        base = intern(x->names, once);
    }
    const char *result = base;
    if (map_get(taken, result)) result = intern_printf(x->names, "%s%s", base, suffix);
    for (int i = 2; map_get(taken, result); i++)
        result = intern_printf(x->names, "%s%s%d", base, suffix, i);
    map_put(taken, result, (void *)result);
    return result;
}

// The variable of an unroll region keeps its name, but where a register or a loop around it has it.
static void name_unrolls(Cuda *x, CudaBlock *b, Map *taken)
{
    for (int i = 0; i < b->stmts.n; i++) {
        CudaStmt *s = &b->stmts.at[i];
        const char *name = NULL;
        if (s->op.op == OP_UNROLL) {
            const char *given = x->fn->unrolls.at[s->op.imm];
            const char *base = arena_strndup(x->arena, given, strcspn(given, "_"));
            name = x->unroll_name[s->op.imm] = cu_unique(x, taken, base, "_");
        }
        if (s->body) name_unrolls(x, s->body, taken);
        if (s->other) name_unrolls(x, s->other, taken);
        if (name) map_put(taken, name, NULL); // its scope ends here
    }
}

// The kernel's own name is taken as well: inside it a register of that name would hide it.
void cu_name_kernel(Cuda *x, CudaBlock *body)
{
    const ThreadFn *f = x->fn;
    Map *taken = cu_reserved(x);
    static const char *const own[] = {"warp", "evict_first", "evict_last"};
    for (int i = 0; i < COUNT(own); i++)
        map_put(taken, intern(x->names, own[i]), (void *)own[i]);
    map_put(taken, intern(x->names, f->name), (void *)f->name);
    for (int i = 0; i < f->regs.n; i++)
        x->reg[i].name = cu_unique(x, taken, f->regs.at[i].name, "_");
    x->param_name = ARENA_ARRAY(x->arena, const char *, f->params.n);
    for (int i = 0; i < f->params.n; i++)
        x->param_name[i] = cu_unique(x, taken, f->params.at[i].name, "_arg");
    x->unroll_name = ARENA_ARRAY(x->arena, const char *, f->unrolls.n);
    name_unrolls(x, body, taken);
}
