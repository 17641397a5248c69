// terms.c - terms over sizes and data, kept once each, and their values under the numbers that a
// case gives to the leaves. Bits are kept as the machine has them: 32-bit results without sign.
//
// Constants below 2^31 are no nodes: the term itself holds the value, under SMALL. Nearly all terms
// of a kernel are such constants.
//
// Invariant: operands have lower indices than the term, so evaluation ends; the depth is bounded by
// refusing (TERM_UNKNOWN) what would get deeper than DEPTH_MAX.
#include "terms.h"

#include <string.h>

enum { DEPTH_MAX = 400, TERMS_MAX = 4 << 20 };
#define SMALL 0x80000000u

typedef enum { T_NONE, T_CONST, T_LEAF, T_TUPLE, T_OP } TermKind;
typedef struct {
    u8 kind, op, type, type2, cmp, half;
    u16 depth;
    Term a, b, c;
    u64 value;          // of a constant; key of a leaf
    u64 now;            // value under the bindings of `stamp`
    u32 stamp;          // 0: not evaluated yet
    bool known, bound;
} Node;

struct Terms {
    Arena *arena;
    VEC(Node) at;
    u32 *table;         // open addressing, indices of nodes
    u32 room, stamp;
};

Terms *terms_new(Arena *a)
{
    Terms *t = ARENA_NEW(a, Terms);
    t->arena = a;
    t->room = 1 << 16;
    t->table = ARENA_ARRAY(a, u32, t->room);
    t->stamp = 1;
    vec_push(a, &t->at, ((Node){.kind = T_NONE}));
    return t;
}

static u64 node_hash(const Node *n)
{
    u64 h = n->kind | (u64)n->op << 8 | (u64)n->type << 16 | (u64)n->type2 << 24 |
            (u64)n->cmp << 32 | (u64)n->half << 40;
    h = (h ^ n->a) * 0x9e3779b97f4a7c15u;
    h = (h ^ h >> 29 ^ n->b) * 0x9e3779b97f4a7c15u;
    h = (h ^ h >> 29 ^ n->c) * 0x9e3779b97f4a7c15u;
    h = (h ^ h >> 29 ^ n->value) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 32;
}

static bool node_same(const Node *x, const Node *y)
{
    return x->kind == y->kind && x->op == y->op && x->type == y->type && x->type2 == y->type2 &&
           x->cmp == y->cmp && x->half == y->half && x->a == y->a && x->b == y->b &&
           x->c == y->c && x->value == y->value;
}

static void grow(Terms *t)
{
    t->room *= 2;
    t->table = ARENA_ARRAY(t->arena, u32, t->room);
    for (u32 i = 1; i < (u32)t->at.n; i++) {
        u32 k = (u32)node_hash(&t->at.at[i]) & (t->room - 1);
        while (t->table[k]) k = (k + 1) & (t->room - 1);
        t->table[k] = i;
    }
}

static Term make(Terms *t, Node n)
{
    u32 k = (u32)node_hash(&n) & (t->room - 1);
    for (; t->table[k]; k = (k + 1) & (t->room - 1))
        if (node_same(&t->at.at[t->table[k]], &n)) return t->table[k];
    if (t->at.n >= TERMS_MAX) return TERM_UNKNOWN;
    t->table[k] = (u32)t->at.n;
    vec_push(t->arena, &t->at, n);
    if ((u32)t->at.n * 2 > t->room) grow(t);
    return (Term)t->at.n - 1;
}

Term term_const(Terms *t, u64 v)
{
    return v < SMALL ? SMALL | (Term)v : make(t, (Node){.kind = T_CONST, .value = v});
}

Term term_leaf(Terms *t, LeafKind kind, u64 key)
{
    return make(t, (Node){.kind = T_LEAF, .op = kind, .value = key});
}

Term term_tuple(Terms *t, Term a, Term b)
{
    return make(t, (Node){.kind = T_TUPLE, .a = a, .b = b});
}

u8 term_leaf_kind(const Terms *t, Term leaf) { return t->at.at[leaf].op; }
u64 term_leaf_key(const Terms *t, Term leaf) { return t->at.at[leaf].value; }

TermView term_view(const Terms *t, Term x)
{
    _Static_assert(T_NONE == (int)TERM_IS_NOTHING && T_OP == (int)TERM_IS_OP, "one order");
    if (x & SMALL) return (TermView){.form = TERM_IS_CONST, .value = x & ~SMALL};
    const Node *n = &t->at.at[x];
    return (TermView){.form = n->kind, .op = n->op, .type = n->type, .type2 = n->type2,
                      .cmp = n->cmp, .half = n->half, .a = n->a, .b = n->b, .c = n->c,
                      .value = n->value};
}

Term terms_end(const Terms *t) { return (Term)t->at.n; }

// ---- arithmetic ---------------------------------------------------------------------------------

static int width(u8 type)
{
    switch (type) {
    case TT_PRED: return 1;
    case TT_B8: return 8;
    case TT_B16: case TT_S16: case TT_U16: return 16;
    case TT_B64: case TT_S64: case TT_U64: return 64;
    default: return 32;
    }
}

static bool is_signed(u8 type) { return type == TT_S32 || type == TT_S64 || type == TT_S16; }
static u64 cut(u64 v, int bits) { return bits == 64 ? v : v & (((u64)1 << bits) - 1); }

static i64 extend(u64 v, u8 type)
{
    int bits = width(type);
    if (bits == 64 || !is_signed(type)) return (i64)v;
    return (i64)(v << (64 - bits)) >> (64 - bits);
}

static bool compare(u8 cmp, u8 type, u64 ua, u64 ub)
{
    i64 a = extend(ua, type), b = extend(ub, type);
    bool less = type == TT_U64 ? ua < ub : a < b;
    switch (cmp) {
    case CMP_EQ: return ua == ub;
    case CMP_NE: return ua != ub;
    case CMP_LT: return less;
    case CMP_LE: return less || ua == ub;
    case CMP_GT: return !less && ua != ub;
    default: return !less;
    }
}

static bool divide(u8 type, bool rest, u64 ua, u64 ub, u64 *out)
{
    if (!ub) return false;
    if (!is_signed(type)) return *out = rest ? ua % ub : ua / ub, true;
    i64 a = extend(ua, type), b = extend(ub, type);
    if (b == -1) return *out = rest ? 0 : (u64)0 - (u64)a, true;
    return *out = (u64)(rest ? a % b : a / b), true;
}

static u64 shift_right(u64 ua, u64 n, u8 type)
{
    int bits = width(type);
    if (n >= (u64)bits) return is_signed(type) && extend(ua, type) < 0 ? ~(u64)0 : 0;
    return is_signed(type) ? (u64)(extend(ua, type) >> n) : ua >> n;
}

// False: not an operation on integers, or a division by zero.
static bool compute(const Node *n, u64 a, u64 b, u64 c, u64 *out)
{
    u8 t = n->type;
    u64 r = 0;
    switch (n->op) {
    case OP_MOV: r = a; break;
    case OP_ADD: r = a + b; break;
    case OP_SUB: r = a - b; break;
    case OP_MUL: r = a * b; break;
    case OP_MULWIDE:
        r = t == TT_S64 ? (u64)(extend(a, TT_S32) * extend(b, TT_S32)) : cut(a, 32) * cut(b, 32);
        break;
    case OP_MAD: r = a * b + c; break;
    case OP_DIV: if (!divide(t, false, a, b, &r)) return false; break;
    case OP_REM: if (!divide(t, true, a, b, &r)) return false; break;
    case OP_MIN: r = compare(CMP_LT, t, a, b) ? a : b; break;
    case OP_MAX: r = compare(CMP_LT, t, a, b) ? b : a; break;
    case OP_NEG: r = (u64)0 - a; break;
    case OP_ABS: r = extend(a, t) < 0 ? (u64)0 - a : a; break;
    case OP_AND: r = a & b; break;
    case OP_OR: r = a | b; break;
    case OP_XOR: r = a ^ b; break;
    case OP_NOT: r = ~a; break;
    case OP_SHL: r = b >= (u64)width(t) ? 0 : a << b; break;
    case OP_SHR: r = shift_right(a, b, t); break;
    case OP_SETP: return *out = compare(n->cmp, t, a, b), true;
    case OP_SELP: r = c & 1 ? a : b; break;
    case OP_CVT: r = (u64)extend(cut(a, width(n->type2)), n->type2); break;
    case OP_PACK: r = a | b << (width(t) / 2); break;
    case OP_UNPACK: return *out = cut(a >> (n->half ? width(t) / 2 : 0), width(t) / 2), true;
    default: return false;
    }
    return *out = cut(r, width(t)), true;
}

static u64 now(const Terms *t, Term x) { return x & SMALL ? x & ~SMALL : t->at.at[x].now; }

static bool evaluate(Terms *t, Term x)
{
    if (x & SMALL) return true;
    Node *n = &t->at.at[x];
    if (n->kind == T_CONST) return n->now = n->value, true;
    if (n->kind == T_LEAF) return n->bound;
    if (n->kind != T_OP) return false;
    if (n->stamp == t->stamp) return n->known;
    // Nothing is added while terms are evaluated, so the pointer holds.
    bool ok = evaluate(t, n->a) && (!n->b || evaluate(t, n->b)) && (!n->c || evaluate(t, n->c));
    u64 a = now(t, n->a), b = now(t, n->b), c = now(t, n->c);
    ok = ok && compute(n, a, b, c, &n->now);
    n->known = ok;
    n->stamp = t->stamp;
    return ok;
}

bool term_value(Terms *t, Term x, u64 *v)
{
    if (!x || !evaluate(t, x)) return false;
    *v = now(t, x);
    return true;
}

static bool is_const(const Terms *t, Term x)
{
    return !x || (x & SMALL) || t->at.at[x].kind == T_CONST;
}

bool term_is_const(const Terms *t, Term x) { return x && is_const(t, x); }

static u64 const_value(const Terms *t, Term x) { return x & SMALL ? x & ~SMALL : t->at.at[x].value; }
static int depth(const Terms *t, Term x) { return x & SMALL ? 0 : t->at.at[x].depth; }

Term term_op(Terms *t, const ThreadOp *op, int half, Term a, Term b, Term c)
{
    if (!a || op->type == TT_F32 || op->type2 == TT_F32) return TERM_UNKNOWN;
    if (op->op == OP_MOV) return a;
    Node n = {.kind = T_OP, .op = op->op, .type = op->type, .type2 = op->type2, .cmp = op->cmp,
              .half = (u8)half, .a = a, .b = b, .c = c};
    if (n.op != OP_SETP) n.cmp = 0;
    if (n.op != OP_CVT) n.type2 = 0;
    u64 v;
    if (is_const(t, a) && is_const(t, b) && is_const(t, c)) {
        return compute(&n, const_value(t, a), const_value(t, b), const_value(t, c), &v)
                   ? term_const(t, v) : TERM_UNKNOWN;
    }
    if (a > b && b && (n.op == OP_ADD || n.op == OP_MUL || n.op == OP_AND || n.op == OP_OR ||
                       n.op == OP_XOR || n.op == OP_MIN || n.op == OP_MAX)) {
        n.a = b;
        n.b = a;
    }
    n.depth = (u16)(1 + MAX(depth(t, a), MAX(depth(t, b), depth(t, c))));
    return n.depth > DEPTH_MAX ? TERM_UNKNOWN : make(t, n);
}

// ---- how terms are made ---------------------------------------------------------------------------

// x = base + constant.
static Term base_of(const Terms *t, Term x, i64 *constant)
{
    *constant = 0;
    while (!is_const(t, x)) {
        const Node *n = &t->at.at[x];
        if (n->kind != T_OP || (n->op != OP_ADD && n->op != OP_SUB) || width(n->type) != 32) break;
        bool first = is_const(t, n->a), second = is_const(t, n->b);
        if (first == second || (first && n->op == OP_SUB)) break;
        i64 v = (i32)(u32)const_value(t, first ? n->a : n->b);
        *constant += n->op == OP_SUB ? -v : v;
        x = first ? n->b : n->a;
    }
    return x;
}

bool term_offset(const Terms *t, Term a, Term b, i64 *offset)
{
    i64 x, y;
    if (!a || !b || base_of(t, a, &x) != base_of(t, b, &y)) return false;
    return *offset = x - y, true;
}

// x = (base + by - 1) / by.
static Term rounded_up(const Terms *t, Term x, i64 *by)
{
    i64 constant;
    const Node *n = &t->at.at[x];
    if (is_const(t, x) || n->kind != T_OP || !n->b || !is_const(t, n->b)) return 0;
    if (n->op == OP_SHR && const_value(t, n->b) < 31) *by = (i64)1 << const_value(t, n->b);
    else if (n->op == OP_DIV) *by = (i64)const_value(t, n->b);
    else return 0;
    Term base = base_of(t, n->a, &constant);
    return constant == *by - 1 ? base : 0;
}

bool term_quotients(const Terms *t, Term a, Term b, i64 *factor)
{
    i64 x, y;
    if (!a || !b || is_const(t, a)) return false;
    const Node *n = &t->at.at[a];
    if (n->kind == T_OP && n->a == b && n->op == OP_SHL && is_const(t, n->b) && const_value(t, n->b) < 31)
        return *factor = (i64)1 << const_value(t, n->b), true;
    Term p = rounded_up(t, a, &x), q = rounded_up(t, b, &y);
    if (!p || p != q || x < 1 || y % x) return false;
    return *factor = y / x, true;
}

// ---- leaves -------------------------------------------------------------------------------------

static void collect(Terms *t, Term x, Term *out, int *n, int max, int *fuel)
{
    if (!x || (x & SMALL) || --*fuel < 0) return;
    const Node *k = &t->at.at[x];
    if (k->kind == T_LEAF && !k->bound) {
        for (int i = 0; i < *n; i++)
            if (out[i] == x) return;
        if (*n < max) out[(*n)++] = x;
    } else if (k->kind == T_OP) {
        collect(t, k->a, out, n, max, fuel);
        collect(t, k->b, out, n, max, fuel);
        collect(t, k->c, out, n, max, fuel);
    }
}

int term_leaves(Terms *t, Term x, Term *out, int max)
{
    int n = 0, fuel = 4000; // shared parts are walked again: a bound on the work
    collect(t, x, out, &n, max, &fuel);
    return n;
}

void term_bind(Terms *t, Term leaf, u64 v)
{
    t->at.at[leaf].bound = true;
    t->at.at[leaf].now = v;
    t->stamp++;
}

void term_unbind(Terms *t, Term leaf)
{
    t->at.at[leaf].bound = false;
    t->stamp++;
}

void terms_forget(Terms *t)
{
    for (int i = 1; i < t->at.n; i++) t->at.at[i].bound = false;
    t->stamp++;
}
