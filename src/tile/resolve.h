// resolve.h - shared state of the way from the syntax tree to tile IR; private to src/tile.
//
//   from_ast.c        functions, parameters, parallel structure    resolve_scope.c  names, emission
//   resolve_expr.c    scalar expressions, types, conversions       resolve_math.c   arithmetic,
//   folding resolve_view.c    shapes and views                             resolve_stmt.c
//   statements, loops resolve_copy.c    transfers and futures                        resolve_frag.c
//   fragments, products                      resolve_event.c  events and operation futures
//   resolve_release.c slots that are handed back too early
//   resolve_path.c    lists, break, continue, yield, while
//   resolve_role.c    inthreads                                resolve_call.c   device helpers
//   resolve_attr.c    attributes of loops and buffers
//
// A function is walked twice: the first walk only finds the shapes of accumulators that are
// declared without one (`acc = mma.fill.f32 0.0f`); its messages and its output are dropped.
#ifndef BATON_TILE_RESOLVE_H
#define BATON_TILE_RESOLVE_H

#include "from_ast.h"

enum {
    RESOLVE_MAX_LIST = 8,
    RESOLVE_MAX_PAR = 8,
    RESOLVE_MAX_THREADS = 1024,
    RESOLVE_MAX_LOOPS = 8,
    RESOLVE_LOCAL_RANK = TILE_MAX_RANK - 2 // slot and thread become dimensions too
};

// What an expression or a name means.
typedef enum {
    VAL_NONE,   // an error was reported; stay silent
    VAL_SCALAR, // a number or bool
    VAL_LIST,   // tuple or shape
    VAL_VIEW,   // a tile in memory
    VAL_ARRAY,  // an array of shared buffers, not yet indexed: `buffer`
    VAL_FRAG,   // a fragment, or (slot < 0) an array of them
    VAL_EVENT,  // `event`
    VAL_REGS,   // a register array of a helper: what a thread holds of fragment `frag`, or (frag < 0)
                // scalars from number `buffer` on; `part`: the first element
    VAL_POINTER, // a helper's pointer into memory: `index` elements behind the origin of `view`
    VAL_OTHER,  // known to the language, unusable here: stream; `what` names it
} ValueKind;

typedef struct {
    const Expr *index, *bound; // value; exclusive upper bound or NULL
} ListItem;

typedef struct {
    u8 kind;    // ValueKind
    DType type; // scalar; element type of views and fragments
    // VAL_SCALAR: `index` when it is an integer (or 0/1) expression, else `x`.
    const Expr *index, *bound; // bound: exclusive upper bound of a bounded integer, or NULL
    const TExpr *x;
    bool literal; // written as a constant: converts without a warning if exact
    // VAL_LIST
    bool shape; // [a, b] and .span; else {a, b}
    int n;
    ListItem item[RESOLVE_MAX_LIST];
    // VAL_VIEW, VAL_ARRAY, VAL_FRAG
    TileView view;
    int buffer, count[2], ncount; // VAL_ARRAY, VAL_REGS: extents of the array
    bool readonly;                // VAL_REGS, VAL_POINTER: const
    int frag, slot, part; // part: of an array of fragments, the slot that indices so far name
    int event; // VAL_EVENT
    const char *what;
} Value;

typedef struct Symbol Symbol;
struct Symbol {
    const char *name;
    Symbol *hidden; // symbol of the same name further out
    int depth;      // of its scope
    int loop_depth; // loops around its declaration
    int roles;      // inthreads around it
    Loc loc;
    Value value;
    bool mutable;
    int scalar;    // index of its TileScalar, -1
    bool with_var; // of `with`: a foreach may iterate it
    bool of_role;  // an index of a parallel that is constant in this role
    // futures of copies and of products
    bool is_future, async, waited, blamed;
    int future;
    TileOp *op;            // the asynchronous operation ...
    TileBlock *block;      // ... where it stands ...
    int serial;            // ... and when it was emitted
    const AstNode *placeholder; // `f = dma.any` that declared it, or NULL
    bool turns;            // by swap or rotate: when it is waited for is not known here
    const char *published; // the event that `trigger .. after` gave the copy to, or NULL
}; // `waited` also becomes true where a wait was refused, and when a copy is published

typedef struct { // an enclosing `parallel` inside the kernel, or its block level
    u8 level;    // TileLevel
    int threads; // of one instance
    int inner;   // thread product of its inner parallels, 0: none seen yet
    Loc inner_loc;
    const char *var; // NULL: block level
    int count;       // instances inside the level around it
} ParLevel;

typedef struct { // how the kernel uses an event
    bool waited, completed;
} EventUse;

typedef struct { // where the orders of a plain trigger begin, if that is known
    int event, lo, hi; // threads of the role
    const char *var;   // that the order counts with, or NULL
    i64 first;
    Loc loc;
} OrderStart;

typedef struct { // what the first walk found for an accumulator
    i64 rows, cols;
    bool f16; // it was declared f16: the sums are kept in f32
} AccShape;

typedef struct {                // kept per shared buffer, for messages
    Loc swizzle_loc, plain_loc; // first copy with and without a swizzle; line 0: none
    bool swizzle_declared;      // swizzle_loc is the declaration: copies need not repeat it
    Symbol *pending;            // async copy into it that was not waited for
    const AstNode *decl;        // its declaration, or NULL
} BufferUse;

typedef struct LoopPath { // the loop around a statement
    int end;                  // the variable that it counts up to, -1: none
    const AstNode *condition; // of a while; of a for that does not simply count
    const AstList *steps;     // of such a for
    const AstNode *node;      // the statement
    int control, roles;       // around its body
    // A loop that is written out. A break on the only path ends it here and now, another one sets
    // the scalar `left` (-1: there is none).
    bool unrolled, stopped, may_stop;
    int left;
    int yielded;            // scalar + 1 that a yield inside sets, 0: there is no yield
    const TileBlock *block; // of the round
} LoopPath;

typedef struct { // a call of a device helper that is being inlined
    const AstNode *fn;
    DType type;
    bool returns;           // a value ...
    int scalar;             // ... in this scalar; -1: `value`, returned on the only path
    Value value;
    int flag;               // scalar that is 1 after a return inside a loop, -1: there is none
    const TileBlock *block; // where the body begins
    Map *types;             // type parameters -> DType + 1
    bool of_library;          // a function of library.c, which may call its others
} InlineCall;

typedef struct Resolve Resolve;
struct Resolve {
    TileModule *m;
    Arena *arena;
    ExprPool *x;
    Diag *diag;
    const AstFile *file;
    const Contract *contract; // or NULL
    TileFn *fn;
    Plan *plan;
    TileKernel *k; // on the host level one that only has the parameters' buffers
    TileKernel *host;
    TileBlock *at;                  // where operations go; NULL on the host level
    VEC(const AstNode *) frag_node; // declaration of each fragment of the kernel
    bool first_walk;
    // What the first walk found: declaring AstNode -> AccShape, and loop -> TileLevel + 1 that its
    // end was found to depend on inside it.
    Map *acc_shapes;

    Map *names;            // interned name -> Symbol, innermost
    VEC(Symbol *) symbols; // all visible, outermost first
    int depth, loop_depth;
    Map *used;       // '%' names of the module: how many
    Map *used_plain; // buffers, fragments, futures of the kernel: how many
    Map *mutables;   // '%' names that change -> non-NULL
    Map *var_level;  // '%' names -> TileLevel + 1 of the innermost level that they depend on
    int guards;      // enclosing conditions
    int control;     // innermost level that an enclosing condition or loop bound depends on
    Loc control_loc;
    VEC(BufferUse) uses; // per buffer of the kernel
    VEC(EventUse) event_uses;  // per event of the kernel
    VEC(Symbol *) products;    // asynchronous ones that were not waited for, in order of issue
    int serial;                // operations emitted so far
    Map *made_of;              // '%' names that are set once -> the expression
    Map *last_set;             // '%' names -> serial of the last operation that set them
    Map *first_set;            // '%' names -> the constant that they are set to first
    VEC(OrderStart) starts;    // of the events of the kernel
    int roles, role_lo, role_hi; // enclosing inthreads; threads of the innermost one
    int role_parts;              // those of them that are one of several roles with one body

    ParLevel par[RESOLVE_MAX_PAR];
    int npar;
    const Expr *when; // host-level condition around us, or NULL
    const AstNode *returns; // type of the array that the function returns, or NULL
    int nkernels;

    Map *const_params; // names of parameters that the kernel may not write
    bool is_target;    // the element being resolved is assigned to, not read
    bool unseen;       // the body of a role was refused unread: what it would have done is not known

    LoopPath *loop;      // innermost, or NULL
    int yielded;         // of the next loop, see LoopPath
    int loop_end;        // the variable that the next loop counts up to, -1: a plain bound
    struct {             // [[pipeline]] of the next loop; stages 0: it has none
        int stages, load, compute;
    } pipeline;
    bool tail;           // nothing of the kernel follows the list of statements that is resolved
    int path_statements; // that leave a list early
    const AstNode *helper; // device helper that is being inlined, or NULL
    InlineCall *call;      // likewise
    int call_depth, call_statements;

    // inside apply
    bool in_apply;
    int apply_frag;
    const Expr *apply_var[2];
    int apply_rank;
};

// ---- resolve_scope.c
int scope_push(Resolve *r); // returns the mark for scope_pop
void scope_pop(Resolve *r, int mark);
Symbol *scope_find(const Resolve *r, const char *name);
Symbol *scope_add(Resolve *r, const char *name, Loc loc, Value v); // reports a second declaration
const char *resolve_var(Resolve *r, const char *name);             // unique '%' name
const char *resolve_plain(Resolve *r, const char *name); // unique name of a buffer or fragment
TileOp *resolve_emit(Resolve *r, TileOpcode op, Loc loc);
void resolve_set(Resolve *r, int scalar, const TExpr *value, Loc loc);
int resolve_new_scalar(Resolve *r, const char *name, DType type, Loc loc);
void resolve_error(Resolve *r, Loc loc, const char *hint, const char *fmt, ...) PRINTF_LIKE(4, 5);
void resolve_warning(Resolve *r, Loc loc, const char *hint, const char *fmt, ...) PRINTF_LIKE(4, 5);
void resolve_unsupported(Resolve *r, Loc loc, const char *fmt, ...) PRINTF_LIKE(3, 4);
const char *resolve_text(Resolve *r, const Expr *e); // for messages
void resolve_type_range(Resolve *r, const char *var, DType type);
bool resolve_uses_mutable(const Resolve *r, const Expr *e);
int resolve_expr_level(const Resolve *r, const Expr *e); // innermost TileLevel that e depends on
int resolve_tree_level(const Resolve *r, const TExpr *x);
void resolve_raise(Resolve *r, const char *var, int level); // var depends on that level from now on
// What all threads of a level do together must not stand under a condition of a deeper level.
bool resolve_together(Resolve *r, Loc loc, const char *what, int level);
bool resolve_host_only(const Resolve *r, const Expr *e); // only plan symbols

// ---- resolve_expr.c
Value resolve_expr(Resolve *r, const AstNode *e);
Value value_none(void);
Value value_index(Resolve *r, const Expr *e, DType t);
Value value_texpr(const TExpr *x);
const TExpr *value_tree(Resolve *r, const Value *v, Loc loc); // any scalar as a TExpr
// Integer as an Expr that does not change later (a run-time value goes to a scalar first); NULL
// after an error. `what` names its role in messages ("a bound of foreach").
const Expr *resolve_index(Resolve *r, const AstNode *e, const char *what);
void resolve_keep_range(Resolve *r, int scalar, const Expr *e); // it is set once, to e
const Expr *resolve_freeze(Resolve *r, const Expr *e, const char *name, Loc loc);
bool value_is_integer(const Value *v);
const Expr *value_to_index(Resolve *r, Value v, Loc loc, const char *what);
bool resolve_const(Resolve *r, const AstNode *e, const char *what, i64 lo, i64 hi, i64 *out);
Value resolve_convert(Resolve *r, Value v, DType to, Loc loc); // implicit conversion
const TExpr *resolve_condition(Resolve *r, const AstNode *e, const Expr **index);
Value resolve_cast(Resolve *r, Value v, DType to, Loc loc); // explicit conversion
const char *value_describe(Resolve *r, const Value *v);

// ---- resolve_math.c
Value math_binary(Resolve *r, AstOp op, Value a, Value b, Loc loc);
Value math_unary(Resolve *r, AstOp op, Value a, Loc loc);
Value math_select(Resolve *r, Value c, Value a, Value b, Loc loc);
Value math_call(Resolve *r, const AstNode *e); // `__exp2f(..)` and its kin
double math_round(DType t, double v);          // to the nearest value of t

// ---- resolve_view.c
Value resolve_view(Resolve *r, const AstNode *e);                           // AST_VIEW
Value resolve_index_of(Resolve *r, const AstNode *e);                       // AST_INDEX
Value resolve_element(Resolve *r, const AstNode *e);                        // AST_AT
Value resolve_member(Resolve *r, const AstNode *e);                         // AST_MEMBER
Value resolve_extent(Resolve *r, Value list, const AstList *args, Loc loc); // x(i)
Value view_of_buffer(Resolve *r, int buffer);
Value view_span(Resolve *r, const Value *v, Loc loc);
bool resolve_need_view(Resolve *r, const AstNode *e, const char *what, Value *out);
// A box that must lie in its buffer as a whole; `what` names it.
bool view_inside(Resolve *r, const TileView *v, const char *what, Loc loc);
bool view_slot_inside(Resolve *r, const Expr *i, i64 count, Loc loc); // index of an array
bool view_reach(Resolve *r, const Expr *i, const Expr *count, const char *what, Loc loc);
void view_used(Resolve *r, const TileView *v, bool write, Loc loc); // marks parameters in / out
const char *view_text(Resolve *r, const Value *v);                  // "bf16 [128, 64]"

// ---- resolve_stride.c: a box whose extents and start, per kept dimension, were checked
Value view_strided(Resolve *r, const AstNode *e, const Value *v, const Expr *const *start,
                   const Expr *const *extent);

// ---- resolve_stmt.c
void resolve_branch_then(Resolve *r, const AstNode *s, const AstNode *const *rest, int nrest,
                         bool round); // an `if`, and what follows it on the sides that go on
void resolve_stmt(Resolve *r, const AstNode *s);
void resolve_open_loop(Resolve *r, const AstNode *at, const char *name, Loc loc, const Expr *lo,
                       const Expr *hi, const Expr *step);
void resolve_define(Resolve *r, const AstNode *where, const char *name, Value v);
void resolve_buffer_decl(Resolve *r, const AstNode *s);
typedef struct { // what conditions around a statement mean for it
    int level, guards;
    Loc loc;
} Control;
Control resolve_enter_control(Resolve *r, int level, Loc loc);
void resolve_leave_control(Resolve *r, Control c);
Value resolve_scalar_read(Resolve *r, int scalar, Loc loc);
void resolve_step(Resolve *r, const Symbol *s, bool plus, Loc loc); // s++ or s--

// ---- resolve_attr.c
bool resolve_pipeline(Resolve *r, const AstNode *s); // of a foreach; false: an error was reported
u8 resolve_handoff(Resolve *r, const AstNode *s);    // of a copy or a buffer: TileHandoff

// ---- resolve_path.c
void resolve_block(Resolve *r, const AstNode *block); // in a scope of its own
void resolve_block_then(Resolve *r, const AstNode *block, const AstNode *const *rest, int nrest,
                        bool round);
void resolve_loop_body(Resolve *r, const AstNode *loop, int end, bool conditional);
int resolve_loop_level(const Resolve *r, const AstNode *loop); // as the first walk found it
// Rounds 0 .. n - 1 of a loop written out; `name` is lo + round * step in each.
void resolve_unroll(Resolve *r, const AstNode *loop, const AstNode *name, i64 lo, i64 step, i64 n);
void resolve_for(Resolve *r, const AstNode *s); // of a device helper
bool resolve_has_return(const AstNode *n);
int resolve_loop_end(Resolve *r, const Expr *value, Loc loc);
bool resolve_breaks(const AstNode *body); // the loop with this body can be left early
void resolve_while(Resolve *r, const AstNode *s);

// ---- resolve_copy.c
void resolve_copy(Resolve *r, const AstNode *s);
void resolve_wait(Resolve *r, const AstNode *s);
void resolve_pending(Resolve *r, const TileView *v, Loc loc); // error when its copy is in flight
int resolve_add_buffer(Resolve *r, TileBuffer b);
bool resolve_swizzle(Resolve *r, int buffer, const AstNode *s); // false: error at s

// ---- resolve_frag.c
void resolve_frag_decl(Resolve *r, const AstNode *s);
void resolve_mma(Resolve *r, const AstNode *s);
void resolve_apply(Resolve *r, const AstNode *s);
void resolve_reduce(Resolve *r, const AstNode *s);
void resolve_frag_copy(Resolve *r, const AstNode *s);
bool frag_element(Resolve *r, const Value *frag, const AstNode *at, u8 *which);

// ---- resolve_event.c
void resolve_event_decl(Resolve *r, const AstNode *s);
void resolve_trigger(Resolve *r, const AstNode *s);
bool resolve_event_wait(Resolve *r, const AstNode *ref); // false: ref names no event
i64 resolve_copy_bytes(const Resolve *r, const TileOp *o); // of the tile
void resolve_event_end(Resolve *r, const Symbol *s);     // its scope ends
void product_issue(Resolve *r, Symbol *f, TileOp *o);
void product_done(Resolve *r, const Symbol *f);
// An error when a product in flight writes the fragment, or reads it and `write`.
bool product_free(Resolve *r, int frag, int slot, bool write, Loc loc);
bool product_free_acc(Resolve *r, int frag, int slot, Loc loc); // as the accumulator of a product

// ---- resolve_release.c
void resolve_check_releases(Resolve *r); // of the kernel that was resolved

// ---- resolve_select.c
// A buffer of the kernel, alone or as a slot of an array with other candidates of a select.
Value resolve_declare_buffer(Resolve *r, const AstNode *decl, TileBuffer b);
bool resolve_turns(const Resolve *r, const AstNode *decl); // its name takes part in swap or rotate
// The event of loads by the TMA unit whose names turn, -1: the name's copies are others.
int resolve_turn_event(Resolve *r, const AstNode *decl);
TileOp *resolve_turn_wait(Resolve *r, const Symbol *f, int event, Loc loc);
bool resolve_turn_here(Resolve *r, const Symbol *f, Loc loc); // else an error: in another role
void resolve_turn(Resolve *r, const AstNode *s);
void resolve_placeholder(Resolve *r, const AstNode *s);
// The destination of a copy into the placeholder f, whose buffer would be b.
bool resolve_fill_placeholder(Resolve *r, const AstNode *s, Symbol *f, TileBuffer b, Value *out);
Value resolve_select_among(Resolve *r, const AstNode *e, const Expr *index); // select(index, ..)

// ---- resolve_device.c
void resolve_sync(Resolve *r, const AstNode *s);
void resolve_print(Resolve *r, const AstNode *s);
// `__atomic_*` and `__bar_*`; false: it is none of them.
bool resolve_device_call(Resolve *r, const AstNode *e, Value *out);

// ---- resolve_call.c
Value resolve_call_helper(Resolve *r, const AstNode *e, bool as_value);
const char *resolve_c_builtin(const Resolve *r, const char *name); // or NULL
bool call_changes(const AstNode *n, const char *name); // n assigns to the variable
Value call_library(Resolve *r, const char *name, const Value *arg, int n, Loc loc);
void call_return(Resolve *r, const AstNode *s);
i32 call_dtype(const Resolve *r, const AstNode *type); // DType, also of a type parameter; or -1
// x[i] and *x of register arrays and pointers; `register_of`: number of a scalar, or -1.
Value call_element(Resolve *r, Value v, const AstNode *index, Loc loc);
int call_register(Resolve *r, const AstNode *element);
Value call_pointer_add(Resolve *r, Value v, Value by, bool minus, Loc loc);
Value call_address(Resolve *r, const AstNode *e); // &x[i]
void call_array_decl(Resolve *r, const AstNode *s); // T x[n] = {..}; T *p = q;

// ---- resolve_role.c
void resolve_inthreads(Resolve *r, const AstNode *s);
// An `if` that is two roles; false: it is an ordinary branch.
bool resolve_role_branch(Resolve *r, const AstNode *s, const Expr *cond);
bool resolve_whole_groups(Resolve *r, Loc loc, const char *what); // the role is whole warpgroups

// ---- from_ast.c
void resolve_parallel(Resolve *r, const AstNode *s); // inside a kernel
int resolve_group4(const Resolve *r);                // index in par, or -1
int resolve_scope_level(const Resolve *r);           // TileLevel of the innermost parallel
void resolve_result_decl(Resolve *r, const AstNode *s);   // an array that the function returns
void resolve_result_return(Resolve *r, const AstNode *s);

#endif
