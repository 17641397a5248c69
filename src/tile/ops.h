// ops.h - one row per operation of the tile IR: whole-tile operations and the structure around
// them. Which fields of TileOp are live stands in the columns; the text form, the checker and the
// lowering table (`lower_<id>` must exist for each row) derive from these rows.
//
//   fields  letters of the live fields of TileOp:
//     v name (variable it binds)   l level        n lo/hi/step (Expr)   c cond (TExpr)   x value (TExpr)
//     d dst view     s src view    f frag         g frag2               k scalar         e future
//     a A operand    b B operand   E elem (store) y engine and modifiers  m axis, kind or amount in `imm`
//     B body         O other        t event and order      r thread range (lo, hi constants)
//     T text (print)
//     p first column of the fragment in `imm`, `from N` in the text when it is not 0
//     P `pipeline S [LOAD COMPUTE]` where stages is not 0: slots, registers of the roles
//     q order of the steps of K in `imm`, `order N` in the text when it is not 0
//   A copy with an event: imm is the bytes of all copies of that generation on the first of them, else 0.
#ifndef BATON_TILE_OPS_H
#define BATON_TILE_OPS_H

#define TILE_OPS(X)                                                                             \
    /* id        name        fields   meaning */                                                \
    X(PAR,       "par",      "vlnB",  "body once per instance of the level; hi = count")        \
    X(FOR,       "for",      "vnPB",  "serial loop, var from lo while < hi by step, which " \
                                 "may differ between threads; hi is the value at " \
                                 "entry, but a scalar that the body sets is read in each " \
                                 "round") \
    X(IF,        "if",       "cBO",   "condition may depend on the thread")                     \
    X(SET,       "set",      "kx",    "scalar = value")                                         \
    X(STORE,     "store",    "Ex",    "memory element = value")                                 \
    X(FSET,      "fset",     "fEx",   "fragment element = value; only inside apply")            \
    X(APPLY,     "apply",    "vfB",   "body for each element of frag that the thread owns")     \
    X(FILL,      "fill",     "fx",    "all elements of frag = value")                           \
    X(COPY,      "copy",     "dsyemt", "tile copy; outside an array it reads zero and " \
                                 "writes nothing; completes its event") \
    X(WAIT,      "wait",     "e",     "data of an async copy is visible to the scope; an async product is done") \
    X(MMA,       "mma",      "fabeq", "frag += A * B; a future: asynchronous until its wait; imm: " \
                                 "four bits for each step of K, the order of the steps; 0: as " \
                                 "they come")   \
    X(MMA_STORE, "mma.store", "fpd",  "columns of a fragment to memory, converted to its type") \
    X(REDUCE,    "reduce",   "fgm",   "frag = reduction of frag2 over axis imm&1; kind imm>>1: TileReduce") \
    X(FCOPY,     "fcopy",    "fg",    "frag = frag2")                                           \
    X(BARRIER,   "barrier",  "l",     "all threads of the level")                               \
    X(ROLE,      "role",     "rB",    "body by threads lo <= tid < hi of the block, apart from the others") \
    X(EVENT_WAIT, "event.wait", "t",  "until generation order / slots of slot order % slots is complete") \
    X(TRIGGER,   "trigger",  "t",     "this thread's arrival at that generation, or in all " \
                                      "blocks of the cluster")                                  \
    X(ATOMIC,    "atomic",   "kEmxc", "scalar = element, and element = kind imm (AtomicKind) of " \
                                      "it and value, as one; cas: = value if it was cond")      \
    X(BAR,       "bar",      "rm",    "named barrier lo of hi threads: imm 1 sync, 0 arrive")   \
    X(PRINT_ARG, "print.arg","xm",    "value imm of the print that follows")                    \
    X(PRINT,     "print",    "T",     "text with these values, by each thread")                 \
    X(USE,       "use",      "s",     "nothing; the tile is read as far as handing it back goes")    \
    X(FENCE,     "fence",    "m",     "accesses before it are seen before those after it: imm 0 " \
                                      "by the block, 1 by the device")                          \
    X(SETREG,    "setreg",   "m",     "register hand-over: imm > 0 inc, < 0 dec")

typedef enum {
#define X(id, name, fields, meaning) TOP_##id,
    TILE_OPS(X)
#undef X
    TOP_COUNT
} TileOpcode;

// Scalar operators inside expressions (TExpr): one row each.
//   result: s same type as operands, b bool
#define TILE_MATHS(X)                          \
    /* id        name           args result */ \
    X(NEG,       "neg",         1, 's')        \
    X(NOT,       "not",         1, 's')        \
    X(LNOT,      "lnot",        1, 'b')        \
    X(ADD,       "add",         2, 's')        \
    X(SUB,       "sub",         2, 's')        \
    X(MUL,       "mul",         2, 's')        \
    X(DIV,       "div",         2, 's')        \
    X(REM,       "rem",         2, 's')        \
    X(AND,       "and",         2, 's')        \
    X(OR,        "or",          2, 's')        \
    X(XOR,       "xor",         2, 's')        \
    X(SHL,       "shl",         2, 's')        \
    X(SHR,       "shr",         2, 's')        \
    X(EQ,        "eq",          2, 'b')        \
    X(NE,        "ne",          2, 'b')        \
    X(LT,        "lt",          2, 'b')        \
    X(LE,        "le",          2, 'b')        \
    X(GT,        "gt",          2, 'b')        \
    X(GE,        "ge",          2, 'b')        \
    X(LAND,      "land",        2, 'b')        \
    X(LOR,       "lor",         2, 'b')        \
    X(MIN,       "min",         2, 's')        \
    X(MAX,       "max",         2, 's')        \
    X(FMA,       "fma",         3, 's')        \
    X(ABS,       "abs",         1, 's')        \
    X(EXP2,      "exp2",        1, 's')        \
    X(LOG2,      "log2",        1, 's')        \
    X(RCP,       "rcp",         1, 's')        \
    X(RSQRT,     "rsqrt",       1, 's')        \
    X(SQRT,      "sqrt",        1, 's')        \
    X(TANH,      "tanh",        1, 's')        \
    X(SELECT,    "select",      3, 's') /* c ? a : b */                                       \
    X(ANY,       "any",         1, 'b') /* in any lane of the warp: all of its lanes agree */
typedef enum {
#define X(id, name, args, result) TM_##id,
    TILE_MATHS(X)
#undef X
    TM_COUNT
} TileMath;

#endif
