// history.h - what every slot of shared memory held, generation after generation, who read it, and
// runs in which reads see another generation than the one that is due.
//
// A slot is the first index of a shared tile of three or more dimensions; a smaller tile is one
// slot. A *generation* of a slot is what stands in it between two overwritings: it ends when a byte
// that was written in it is written again. An *order* numbers the generations of all slots of a
// buffer as a ring does: generation g of slot s of S has the order g * S + s.
//
//     EmuHistory *h = emu_history_new(arena, limit);
//     launch.history = h;                  calm schedule, hazards on: the record of a right run
//     EmuFault f = {.history = h, ...};
//     launch.fault = &f;                   the same run, but the named reads see other bytes
//
// Both need SCHED_ROUND_ROBIN and `hazards`: loads then land at once, so that what a slot holds at
// a read is the generation that the program means. A plan with several launches numbers them by
// EmuLaunch.number.
#ifndef BATON_EMU_HISTORY_H
#define BATON_EMU_HISTORY_H

#include "emu.h"

// How a generation was read.
typedef enum { READ_LOAD, READ_MATRIX, READ_PRODUCT, READ_STORE, READ_KINDS } EmuReadKind;
extern const char *const emu_read_name[READ_KINDS]; // "ordinary loads"

// The reads of one generation by one operation of the program.
enum { READER_LOOPS = 3 };
typedef struct {
    const ThreadOp *op;
    u8 kind;               // EmuReadKind
    u8 loops;              // loops around it that are told, outermost first
    u32 warps;             // of the CTA, one bit each
    const ThreadOp *loop[READER_LOOPS];
    u32 first[READER_LOOPS], last[READER_LOOPS]; // rounds of each
} EmuReader;
// Adds what another record of the same operation has.
void emu_reader_join(EmuReader *to, const EmuReader *from);

typedef struct {
    const u8 *bytes;       // slot_bytes, as they lie in shared memory
    int param;             // tensor of its first bulk load, as a kernel parameter; -1: none
    int rank;              // of that load's box ...
    i32 coord[TMA_MAX_RANK]; // ... its origin and extents in elements, innermost first
    u32 box[TMA_MAX_RANK];
    VEC(EmuReader) readers;
} EmuGeneration;

// One buffer of one CTA of one launch.
typedef struct {
    int launch;
    i64 cta;
    i32 buffer;            // of the kernel
    u32 slots;
    u32 slot_bytes;
    VEC(EmuGeneration *) order; // NULL: that order never was
} EmuTrack;

// Which CTA wrote each piece of a tensor last.
typedef struct {
    const u8 *base;
    size_t bytes;
    u8 granule;            // log2 of the bytes of a piece
    const u32 *cta;        // linear index + 1; 0: nobody
} EmuWritten;

typedef struct EmuHistory {
    Arena *arena;
    size_t limit, used;    // bytes of copies; beyond the limit nothing is kept
    bool full;             // the limit was met
    VEC(EmuTrack *) tracks;
    VEC(const ThreadFn *) kernels; // by number of launch
    VEC(EmuWritten) written; // of all launches; later ones stand behind earlier ones
    Map *index;            // of tracks
} EmuHistory;

// Lives in the arena, like all that it records.
EmuHistory *emu_history_new(Arena *a, size_t limit);
// NULL when the CTA never touched that buffer.
const EmuTrack *emu_history_find(const EmuHistory *h, int launch, i64 cta, i32 buffer);
// Slots of a shared buffer, by its extents.
u32 emu_slots(const ThreadBuffer *b);

// CTA + 1 of the last write to an address, 0 where nobody knows.
u32 emu_history_writer(const EmuHistory *h, const u8 *address);

// Reads of `buffer` at order n by the warps in late[n] see order n + distance as `history` has it.
// Where that never was, they see what is there.
typedef struct EmuFault {
    const EmuHistory *history;
    int launch;
    i32 buffer;
    i32 distance;
    u32 norders;           // of `late`; later ones are not changed
    bool per_cta;          // `late` has a row for each CTA, else one for all
    const u32 *late;       // warps of a CTA, one bit each
} EmuFault;

#endif
