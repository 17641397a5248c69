// space.h - a kernel as integer unknowns: what each access of it touches, as expressions over
// sizes, block and thread numbers, rounds of loops and loaded values, and under which conditions.
//
// One pool of expressions of its own: registers are replaced by what they hold (walk.c), so a
// coordinate is a formula over unknowns only. An unknown carries facts that hold whenever it has a
// value; whoever asks about it asks under its facts (ask.c).
//
// Arithmetic is that of whole numbers: 32-bit index arithmetic is taken not to overflow, which the
// report names among its assumptions.
#ifndef BATON_SETS_SPACE_H
#define BATON_SETS_SPACE_H

#include "../verify/check.h"

typedef enum {
    UNKNOWN_SIZE,   // decided by the launch: an extent, a scalar, a device property, the grid
    UNKNOWN_BLOCK,  // ctaid.x, .y, .z
    UNKNOWN_THREAD, // tid
    UNKNOWN_ROUND,  // of a `for`: 0, 1, 2, ...
    UNKNOWN_COPY,   // value of an `unroll` variable
    UNKNOWN_VALUE,  // loaded, or computed in a way that is not followed: no sample is evidence
} UnknownKind;

typedef struct Unknown Unknown;
struct Unknown {
    const Expr *var;         // its variable in the pool
    u8 kind;                 // UnknownKind
    const char *shown;       // name in messages
    bool loose;              // UNKNOWN_SIZE: an argument that no plan says anything about
    VEC(const Expr *) facts; // conditions that hold
    // UNKNOWN_ROUND: the loop runs while lo + step * var < hi.
    const Expr *lo, *hi;
    i64 step;
    // UNKNOWN_VALUE: a counter that never falls below this value; NULL: none.
    const Expr *least;
    // UNKNOWN_VALUE: loaded from this element of a buffer that no kernel writes; -1: not so.
    int buffer;
    const Expr *at[2];
};

typedef VEC(const Expr *) ExprList;
typedef VEC(Unknown *) UnknownList;

typedef struct {
    const CheckJob *job;
    Arena *arena; // of the walk: gone when the part ends
    ExprPool *pool;
    Intern *names;
    Map *by_name; // interned name in `pool` -> Unknown
    UnknownList unknowns;
    ExprList sizes;      // what the plan checks before the launch, and the step's condition
    const Expr *grid[3]; // NULL: not known
    int fresh;           // names given so far
    bool told;           // assumptions about lists are already in the report
    Map *globals;        // interned name -> value of a symbol or kernel parameter, Expr
    int budget;          // operations that the walk may still follow
} Space;

// What an access does to its buffer.
typedef enum { TOUCH_READ = 1, TOUCH_WRITE = 2, TOUCH_ATOMIC = 4 } Touch;

typedef struct {
    const ThreadOp *op;
    u8 touch;   // Touch bits
    int buffer; // of the kernel
    int rank;
    const Expr *at[6];        // first element, one coordinate per dimension
    i64 count[6];             // elements from there
    const PlanTensorMap *map; // bulk copies, global side: coordinates and counts are those of the
                              // map (innermost first), else NULL
    int map_param;            // kernel parameter of the map
    bool unclear;             // threads may have left before, and it is not known which
    ExprList path;            // conditions under which it takes place
    UnknownList inst;         // what tells one execution from another, block numbers first
} Access;
typedef VEC(Access) AccessList;

// The unknowns of the launch: plan symbols, kernel parameters, grid, block and thread.
Space *space_new(const CheckJob *job, Arena *a);
// The plan's tensor behind a kernel parameter or a tensor map; -1: the plan does not say.
int space_tensor(const Space *s, int fn_param);
int space_map_tensor(const Space *s, const PlanTensorMap *map);
Unknown *space_fresh(Space *s, UnknownKind kind, const char *shown, i64 lo, i64 hi);
void space_fact(Space *s, Unknown *u, const Expr *cond);
Unknown *space_find(const Space *s, const Expr *var); // NULL: not of this space
// An expression of the module or the plan that names sizes only, in the space's pool; NULL: it
// names something else.
const Expr *space_size(Space *s, const Expr *e);
// The truth of a condition turned round.
const Expr *space_not(Space *s, const Expr *cond);
// Unknowns in an expression.
void space_collect(Space *s, const Expr *e, UnknownList *out);
bool space_uses(Space *s, const Expr *e, UnknownKind kind);

// walk.c: all accesses of the kernel, in program order. False: a reason is in *why.
bool walk_kernel(Space *s, AccessList *out, const char **why);

// ---- lists.c: what host functions put into workspaces
// -------------------------------------------- Gives a value loaded from a workspace the facts that
// its host function promises, and names them among the report's assumptions.
void list_facts(Space *s, Unknown *u);
// Puts the task of a list in the place of the block and the round that read its row, where nothing
// else of an access depends on those two.
bool list_rewrite(Space *s, Access *a);

// ---- orders.c: whole numbers instead of quotients by sizes
// --------------------------------------- Puts one task number in the place of a block and its
// rounds over every grid-th task, and then rows and columns of tiles in the place of quotients of
// that number. True: something was put, and the access has as many executions as before.
bool order_rewrite(Space *s, Access *a);
// Adds the conditions under which an access takes place: those on the way, and that the block,
// the thread and the rounds exist.
void access_conds(Space *s, const Access *a, ExprList *out);
// Replaces one expression by another in an access, and says whether the access uses a variable.
void access_put(Space *s, Access *a, const Expr *what, const Expr *by);
bool access_uses(const Access *a, const Expr *var);
void access_drop(Access *a, const Unknown *u); // from what tells executions apart
const Expr *space_put(Space *s, const Expr *e, const Expr *what, const Expr *by);

// ---- ask.c --------------------------------------------------------------------------------------
typedef enum {
    ANSWER_NO,   // no values of the unknowns meet the conditions
    ANSWER_YES,  // `sample` does, and it was evaluated
    ANSWER_OPEN, // neither was shown; `why` says why
} Answer;

typedef struct {
    int n;
    Unknown **unknown;
    i64 *value;
    const char *why; // ANSWER_OPEN
} Sample;

// Are there values for which all conditions hold (beside the facts of all unknowns in them)? A
// first "yes" is asked again with all that the plan checks. Each question has a fuse, and so have
// all of an asker together: what is asked then stays open.
typedef struct Asker Asker;
Asker *asker_new(Space *s);
void asker_free(Asker *a);
Answer ask(Asker *a, const ExprList *conds, Sample *out);

// "S = 1, ctaid.x = 0, tid = 3": sizes first; values that do not matter are left out.
const char *sample_text(Space *s, const Sample *x);
i64 sample_value(Space *s, const Sample *x, const Expr *e, bool *ok);

#endif
