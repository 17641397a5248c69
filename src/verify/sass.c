// sass.c - the table of operations of sm_90 and how the fields of those that matter are read.
//
// The numbers were read off what ptxas 13.0 makes of small programs; tests/verify assembles such
// programs again and compares. A row stands for all operand forms of one operation: the form is in
// three bits of its own and says nothing about order.
#include "sass.h"

#include <string.h>

const SassClass sass_table[] = {
    // integer, floating point, predicates and moves
    {0x001, SASS_PLAIN, "PMTRIG"}, {0x002, SASS_PLAIN, "MOV"}, {0x003, SASS_PLAIN, "P2R"},
    {0x004, SASS_PLAIN, "R2P"}, {0x005, SASS_PLAIN, "CS2R"}, {0x006, SASS_PLAIN, "VOTE"},
    {0x007, SASS_PLAIN, "SEL"}, {0x008, SASS_PLAIN, "FSEL"}, {0x009, SASS_PLAIN, "FMNMX"},
    {0x00a, SASS_PLAIN, "FSET"}, {0x00b, SASS_PLAIN, "FSETP"}, {0x00c, SASS_PLAIN, "ISETP"},
    {0x00f, SASS_PLAIN, "VIMNMX3"}, {0x010, SASS_PLAIN, "IADD3"}, {0x011, SASS_PLAIN, "LEA"},
    {0x012, SASS_PLAIN, "LOP3"}, {0x013, SASS_PLAIN, "IABS"}, {0x014, SASS_PLAIN, "VABSDIFF"},
    {0x016, SASS_PLAIN, "PRMT"}, {0x019, SASS_PLAIN, "SHF"}, {0x01a, SASS_PLAIN, "SGXT"},
    {0x01c, SASS_PLAIN, "PLOP3"}, {0x020, SASS_PLAIN, "FMUL"}, {0x021, SASS_PLAIN, "FADD"},
    {0x023, SASS_PLAIN, "FFMA"}, {0x024, SASS_PLAIN, "IMAD"}, {0x025, SASS_PLAIN, "IMAD.WIDE"},
    {0x026, SASS_PLAIN, "IDP"}, {0x027, SASS_PLAIN, "IMAD.HI"}, {0x028, SASS_PLAIN, "DMUL"},
    {0x029, SASS_PLAIN, "DADD"}, {0x02a, SASS_PLAIN, "DSETP"}, {0x02b, SASS_PLAIN, "DFMA"},
    {0x02d, SASS_PLAIN, "PREEXIT"}, {0x02e, SASS_PLAIN, "ACQBULK"}, {0x02f, SASS_PLAIN, "ELECT"},
    {0x030, SASS_PLAIN, "HADD2"}, {0x031, SASS_PLAIN, "HFMA2"}, {0x032, SASS_PLAIN, "HMUL2"},
    {0x034, SASS_PLAIN, "HSETP2"}, {0x035, SASS_PLAIN, "HFMA2.BF16"}, {0x036, SASS_PLAIN, "VIADD"},
    {0x037, SASS_PLAIN, "IMMA"}, {0x03a, SASS_PLAIN, "MOVM"}, {0x03c, SASS_PLAIN, "HMMA"},
    {0x03e, SASS_PLAIN, "F2FP"}, {0x03f, SASS_PLAIN, "DMMA"}, {0x040, SASS_PLAIN, "HMNMX2"},
    {0x045, SASS_PLAIN, "I2FP"}, {0x046, SASS_PLAIN, "VIADDMNMX"}, {0x048, SASS_PLAIN, "VIMNMX"},
    {0x100, SASS_PLAIN, "FLO"}, {0x101, SASS_PLAIN, "BREV"}, {0x102, SASS_PLAIN, "FCHK"},
    {0x104, SASS_PLAIN, "F2F"}, {0x105, SASS_PLAIN, "F2I"}, {0x106, SASS_PLAIN, "I2F"},
    {0x107, SASS_PLAIN, "FRND"}, {0x108, SASS_PLAIN, "MUFU"}, {0x109, SASS_PLAIN, "POPC"},
    {0x110, SASS_PLAIN, "F2F.64"}, {0x111, SASS_PLAIN, "F2I.64"}, {0x112, SASS_PLAIN, "I2F.64"},
    {0x118, SASS_PLAIN, "NOP"}, {0x119, SASS_PLAIN, "S2R"}, {0x11c, SASS_PLAIN, "B2R"},
    {0x152, SASS_PLAIN, "RPCMOV"}, {0x153, SASS_PLAIN, "RPCMOV"}, {0x1c3, SASS_PLAIN, "S2UR"},
    {0x1c4, SASS_PLAIN, "REDUX"}, {0x189, SASS_PLAIN, "SHFL"}, {0x1a1, SASS_PLAIN, "MATCH"},
    // the same on uniform registers
    {0x082, SASS_PLAIN, "UMOV"}, {0x083, SASS_PLAIN, "UP2UR"}, {0x084, SASS_PLAIN, "UR2UP"},
    {0x086, SASS_PLAIN, "VOTEU"}, {0x087, SASS_PLAIN, "USEL"}, {0x08c, SASS_PLAIN, "UISETP"},
    {0x090, SASS_PLAIN, "UIADD3"}, {0x091, SASS_PLAIN, "ULEA"}, {0x092, SASS_PLAIN, "ULOP3"},
    {0x096, SASS_PLAIN, "UPRMT"}, {0x097, SASS_PLAIN, "UIADD3.64"}, {0x099, SASS_PLAIN, "USHF"},
    {0x0a4, SASS_PLAIN, "UIMAD"}, {0x0a5, SASS_PLAIN, "UIMAD.WIDE"}, {0x0b9, SASS_PLAIN, "ULDC"},
    {0x0bd, SASS_PLAIN, "UFLO"}, {0x0bf, SASS_PLAIN, "UPOPC"}, {0x0ca, SASS_PLAIN, "R2UR"},
    // memory that no slot lies in, and writes
    {0x181, SASS_PLAIN, "LDG"}, {0x182, SASS_PLAIN, "LDC"}, {0x185, SASS_PLAIN, "ST"},
    {0x186, SASS_PLAIN, "STG"}, {0x188, SASS_PLAIN, "STS"}, {0x044, SASS_PLAIN, "STSM"},
    {0x18f, SASS_PLAIN, "CCTL"}, {0x1a3, SASS_PLAIN, "ATOMG"}, {0x1a6, SASS_PLAIN, "REDG"},
    {0x18e, SASS_PLAIN, "REDG"}, {0x1a9, SASS_PLAIN, "ATOMG"}, {0x1aa, SASS_PLAIN, "QSPC"},
    {0x1ae, SASS_PLAIN, "LDGSTS"},
    {0x1af, SASS_PLAIN, "LDGDEPBAR"}, {0x1bd, SASS_PLAIN, "STAS"}, {0x1be, SASS_PLAIN, "REDAS"},
    {0x183, SASS_SPILL, "LDL"}, {0x187, SASS_SPILL, "STL"},
    // reads of shared memory
    {0x184, SASS_SHARED_LOAD, "LDS"}, {0x03b, SASS_SHARED_LOAD, "LDSM"},
    {0x18c, SASS_SHARED_LOAD, "ATOMS"}, {0x18d, SASS_SHARED_LOAD, "ATOMS"},
    {0x180, SASS_GENERIC_LOAD, "LD"}, {0x18a, SASS_GENERIC_LOAD, "ATOM"},
    // bulk copies
    {0x1b4, SASS_BULK_LOAD, "UTMALDG"}, {0x1b5, SASS_PLAIN, "UTMASTG"},
    {0x1b6, SASS_PLAIN, "UTMAREDG"}, {0x1b7, SASS_PLAIN, "UTMACMDFLUSH"},
    {0x1b8, SASS_PLAIN, "UTMAPF"}, {0x1b9, SASS_PLAIN, "UTMACCTL"},
    {0x1ba, SASS_BULK_LOAD, "UBLKCP"}, {0x1bb, SASS_BULK_LOAD, "UBLKRED"},
    {0x1bc, SASS_PLAIN, "UBLKPF"},
    // synchronisation
    {0x1a7, SASS_ARRIVE, "SYNCS"}, {0x1b0, SASS_ARRIVE, "ARRIVES"},
    {0x1b1, SASS_PLAIN, "SYNCS.CCTL"},
    {0x1b2, SASS_PLAIN, "SYNCS.EXCH"}, {0x1c6, SASS_FENCE_SHARED, "FENCE.VIEW.ASYNC"},
    {0x192, SASS_MEMBAR, "MEMBAR"}, {0x1ab, SASS_PLAIN, "ERRBAR"}, {0x11d, SASS_BARRIER, "BAR"},
    {0x1c7, SASS_PLAIN, "UCGABAR"}, {0x11a, SASS_DEPBAR, "DEPBAR"},
    {0x1c8, SASS_SET_REGISTERS, "USETMAXREG"},
    // products of a warpgroup
    {0x1f0, SASS_WGMMA, "HGMMA"}, {0x1f1, SASS_WGMMA, "IGMMA"}, {0x1f2, SASS_WGMMA, "BGMMA"},
    {0x1f3, SASS_WGMMA, "QGMMA"}, {0x1c5, SASS_WGMMA_ARRIVE, "WARPGROUP"},
    // control
    {0x147, SASS_BRANCH, "BRA"}, {0x144, SASS_CALL, "CALL.REL"},
    {0x143, SASS_CALL_OUTSIDE, "CALL.ABS"}, {0x150, SASS_RETURN, "RET"},
    {0x149, SASS_INDIRECT, "BRX"}, {0x145, SASS_CONVERGE_SET, "BSSY"},
    {0x141, SASS_CONVERGE, "BSYNC"}, {0x14d, SASS_EXIT, "EXIT"}, {0x142, SASS_PLAIN, "BREAK"},
    {0x146, SASS_PLAIN, "YIELD"}, {0x148, SASS_PLAIN, "WARPSYNC"}, {0x15c, SASS_PLAIN, "BPT"},
    {0x14e, SASS_PLAIN, "LEPC"}, {0x15d, SASS_PLAIN, "NANOSLEEP"},
};
const int sass_table_count = COUNT(sass_table);

// Bits of one word, from `first`, at most 63 of them.
static u64 bits(u64 word, int first, int n) { return word >> first & (((u64)1 << n) - 1); }

static u64 word_at(const u8 *at)
{
    u64 v = 0;
    for (int i = 0; i < 8; i++) v |= (u64)at[i] << (8 * i);
    return v;
}

static const SassClass *find(u64 operation)
{
    for (int i = 0; i < sass_table_count; i++)
        if (sass_table[i].operation == operation) return &sass_table[i];
    return NULL;
}

// In words of four bytes from the end of the instruction: 48 bits from low 34 on, and for branches
// and calls eight more below them, at low 16.
static i64 branch_target(u64 low, u64 high, u64 offset, bool wide)
{
    u64 words = bits(low, 34, 30) | bits(high, 0, 18) << 30;
    int n = 48;
    if (wide) {
        words = words << 8 | bits(low, 16, 8);
        n = 56;
    }
    u64 sign = (u64)1 << (n - 1);
    return (i64)(offset + SASS_BYTES + ((words ^ sign) - sign) * 4);
}

// Guard "always", no second predicate, no uniform one, and no variant that goes by what the warp's
// threads do. Whatever is not surely so counts as a branch that may fall through.
static bool branch_is_unconditional(const SassInst *s, u64 low, u64 high)
{
    return s->operation == 0x947 && s->always && !bits(low, 24, 10) && bits(high, 23, 4) == 7 &&
           !bits(high, 20, 3);
}

static const char *load_form(u64 high)
{
    static const char *const forms[] = {".U8", ".S8", ".U16", ".S16", "", ".64", ".128", ""};
    return forms[bits(high, 9, 3)];
}

// Two operations behind one number, by form: a test of the phase, and all that changes a barrier.
// Those that change it: the kind in three bits; 2 to 4 count no arrival, only bytes.
static void decode_syncs(SassInst *s, u64 high)
{
    static const char *const forms[] = {".ARRIVE.TRANS64",      ".ARRIVE.TRANS64.A1T0",
                                        ".ARRIVE.TRANS64.A0T1", ".ARRIVE.TRANS64.A0TR",
                                        ".ARRIVE.TRANS64.A0TX", ".ARRIVE.TRANS64.ART0"};
    u64 form = bits(high, 20, 3);
    if (s->operation == 0x5a7) {
        s->kind = SASS_TRY_WAIT;
        s->form = ".PHASECHK";
    } else if (s->operation != 0x9a7 || form >= COUNT(forms)) {
        s->kind = SASS_UNKNOWN;
    } else {
        s->kind = form >= 2 && form <= 4 ? SASS_EXPECT : SASS_ARRIVE;
        s->form = forms[form];
    }
}

// Bit 47 of the low word: at most `count` left on one scoreboard; else those of a mask are clear.
// Only what has none left is taken: whether results come back in order is not known here.
static void decode_depbar(SassInst *s, u64 low)
{
    if (bits(low, 47, 1)) {
        s->count = (int)bits(low, 38, 6);
        if (!s->count && bits(low, 44, 3) < SASS_SCOREBOARDS)
            s->wait |= (u8)(1 << bits(low, 44, 3));
    } else {
        s->wait |= (u8)bits(low, 32, SASS_SCOREBOARDS);
    }
}

static void decode_warpgroup(SassInst *s, u64 low, u64 high)
{
    u64 form = bits(high, 16, 4);
    if (form == 0) {
        s->form = ".ARRIVE";
    } else if (form == 1 && bits(low, 47, 1)) {
        s->kind = SASS_WGMMA_WAIT;
        s->form = ".DEPBAR";
        s->count = (int)bits(high, 8, 8);
    } else {
        s->kind = SASS_UNKNOWN;
    }
}

// What the table leaves open: operations whose kind hangs on their modifiers.
static void refine(SassInst *s, u64 low, u64 high, u64 offset)
{
    switch (s->operation & 0x1ff) {
    case 0x184: s->form = load_form(high); break;
    case 0x18c:
    case 0x18d:
        if (s->dest == SASS_NO_REGISTER) s->kind = SASS_PLAIN;
        break;
    case 0x1a7: decode_syncs(s, high); break;
    case 0x1ba:
    case 0x1bb: // into shared memory: bit 9
        if (!bits(high, 9, 1)) s->kind = SASS_PLAIN;
        break;
    case 0x1c6:
        if (bits(high, 8, 2) == 1) s->kind = SASS_FENCE_GLOBAL;
        else if (bits(high, 8, 2) != 0) s->kind = SASS_UNKNOWN;
        s->form = s->kind == SASS_FENCE_GLOBAL ? ".G" : ".S";
        break;
    case 0x1c5: decode_warpgroup(s, low, high); break;
    case 0x11a: decode_depbar(s, low); break;
    case 0x147:
    case 0x144: s->target = branch_target(low, high, offset, true); break;
    case 0x145: s->target = branch_target(low, high, offset, false); break;
    default: break;
    }
    if (s->kind == SASS_BRANCH) s->always = branch_is_unconditional(s, low, high);
    if (s->kind == SASS_CONVERGE || s->kind == SASS_CONVERGE_SET)
        s->converge = (u8)bits(low, 16, 4);
    if (s->kind == SASS_WGMMA) {
        s->last = bits(high, 20, 3) == 0;
        s->fresh = bits(high, 0, 8) == SASS_NO_REGISTER;
    }
}

SassInst sass_decode(const u8 *at, u64 offset)
{
    u64 low = word_at(at), high = word_at(at + 8);
    SassInst s = {.operation = (u16)bits(low, 0, 12), .name = "?", .form = ""};
    s.guard = (u8)bits(low, 12, 4);
    s.always = s.guard == 7;
    s.never = s.guard == 15;
    s.dest = (u8)bits(low, 16, 8);
    s.source = (u8)bits(low, 24, 8);
    s.set = (u8)bits(high, 46, 3);
    s.set_read = (u8)bits(high, 49, 3);
    s.wait = (u8)bits(high, 52, SASS_SCOREBOARDS);
    const SassClass *c = find(s.operation & 0x1ff);
    if (!c) return s;
    s.kind = c->kind;
    s.name = c->name;
    refine(&s, low, high, offset);
    return s;
}

void sass_print(const SassInst *s, Buf *out)
{
    if (s->guard != 7) {
        buf_printf(out, s->guard & 8 ? "@!P" : "@P");
        if ((s->guard & 7) == 7) buf_putc(out, 'T');
        else buf_printf(out, "%d", s->guard & 7);
        buf_putc(out, ' ');
    }
    if (s->kind == SASS_UNKNOWN) {
        buf_printf(out, "operation 0x%03x", s->operation);
        if (s->name[0] != '?') buf_printf(out, " (an unknown form of %s)", s->name);
        return;
    }
    buf_printf(out, "%s%s", s->name, s->form);
    if (s->kind == SASS_SHARED_LOAD || s->kind == SASS_GENERIC_LOAD) {
        if (s->dest == SASS_NO_REGISTER) buf_puts(out, " RZ");
        else buf_printf(out, " R%d", s->dest);
    }
}
