// bytes.h - sets of shared-memory bytes, each kept once. Slots come round again and again, and so do
// the cases of one kernel, so equal sets are one number, and what was asked about two of them is
// remembered.
#ifndef BATON_VERIFY_BYTES_H
#define BATON_VERIFY_BYTES_H

#include "../base/base.h"

typedef struct { i32 from, to; } Span;          // bytes, the blocks of a cluster behind one another
typedef struct { int first, n; Span hull; } ByteSet; // spans in ByteSets.spans, apart and in order

// A set that shares bytes with another one; `within`: none of its bytes lies outside of the other.
typedef struct { int set; bool within; } Neighbour;
typedef VEC(Neighbour) Neighbours;

typedef struct {
    Arena *arena;
    VEC(Span) spans;
    VEC(ByteSet) sets;
    int *table;          // open addressing by contents: index + 1
    int room;
    Map *memo;           // answers by key, + 1
    VEC(Neighbours) near; // of the sets that were there at the last bytes_near
} ByteSets;

ByteSets *bytes_new(Arena *a);
// Sorts and merges the spans in place; returns the number of the set.
int bytes_set(ByteSets *b, Span *s, int n);
int bytes_union(ByteSets *b, int x, int y);
// Have the sets a byte in common? A negative number is the empty set.
bool bytes_meet(ByteSets *b, int x, int y);
// All sets that share bytes with the set, itself among them.
const Neighbours *bytes_near(ByteSets *b, int set);
// What the caller found out about a key of its own (not 0); -1: nothing yet.
int bytes_recall(const ByteSets *b, u64 key);
void bytes_remember(ByteSets *b, u64 key, int value);

#endif
