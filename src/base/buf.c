// buf.c - growing text, and whole files in and out. A Buf starts as {0}, owns its bytes on the
// heap and always keeps a NUL behind them, so that .s is a C string once anything was written.
#include "base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// Room for `extra` bytes more and the NUL.
static void reserve(Buf *b, size_t extra)
{
    if (b->cap - b->n > extra) return;
    size_t cap = MAX(b->cap * 2, b->n + extra + 1);
    cap = MAX(cap, (size_t)256);
    char *s = realloc(b->s, cap);
    if (!s) {
        fprintf(stderr, "baton: out of memory asking for %zu bytes\n", cap);
        exit(3);
    }
    b->s = s;
    b->cap = cap;
}

// `p` must not point into the Buf: growing may move it. NULs are bytes like others.
void buf_write(Buf *b, const void *p, size_t n)
{
    reserve(b, n);
    if (n) memcpy(b->s + b->n, p, n);
    b->n += n;
    b->s[b->n] = 0;
}

void buf_puts(Buf *b, const char *s) { buf_write(b, s, strlen(s)); }

void buf_putc(Buf *b, char c) { buf_write(b, &c, 1); }

// Most texts fit the first try; the second one knows the length.
void buf_vprintf(Buf *b, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    reserve(b, 128);
    int n = vsnprintf(b->s + b->n, b->cap - b->n, fmt, ap);
    if ((size_t)n >= b->cap - b->n) {
        reserve(b, (size_t)n + 1);
        vsnprintf(b->s + b->n, b->cap - b->n, fmt, again);
    }
    b->n += (size_t)n;
    va_end(again);
}

void buf_printf(Buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(b, fmt, ap);
    va_end(ap);
}

// Leaves an empty Buf that can be used again.
void buf_free(Buf *b)
{
    free(b->s);
    *b = (Buf){0};
}

// Reads to the end instead of asking for the size first: pipes and /proc have none. The reason is
// static text or strerror's, valid until the next call of either.
const char *file_read(const char *path, Buf *out, size_t max_bytes)
{
    FILE *f = fopen(path, "rb");
    if (!f) return strerror(errno);
    struct stat st;
    if (fstat(fileno(f), &st) == 0 && S_ISDIR(st.st_mode)) {
        fclose(f);
        return "is a directory";
    }
    size_t total = 0;
    for (;;) {
        reserve(out, 65536);
        size_t n = fread(out->s + out->n, 1, 65536, f);
        out->n += n;
        total += n;
        out->s[out->n] = 0;
        // Short: the end, or an error, which ferror tells below.
        if (n < 65536) break;
        if (total > max_bytes) break;
    }
    const char *err = ferror(f) ? "read error" : total > max_bytes ? "is too large" : NULL;
    fclose(f);
    return err;
}

// A write may take a part only, or be interrupted by a signal.
static const char *write_all(int fd, const char *p, size_t n)
{
    while (n) {
        ssize_t k = write(fd, p, n);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) return strerror(errno);
        p += k;
        n -= (size_t)k;
    }
    return NULL;
}

// 0666 less the user's umask, as for any new file. A failure leaves the old file as it was and no
// temporary one.
const char *file_write(const char *path, const void *data, size_t n)
{
    struct stat st;
    bool in_place = stat(path, &st) == 0 && !S_ISREG(st.st_mode);
    // The process number keeps two writers of one file apart; the last rename wins, whole.
    Buf tmp = {0};
    if (in_place)
        buf_puts(&tmp, path);
    else
        buf_printf(&tmp, "%s.%ld.tmp", path, (long)getpid());
    int fd = open(tmp.s, in_place ? O_WRONLY : O_WRONLY | O_CREAT | O_TRUNC, 0666);
    const char *err = fd < 0 ? strerror(errno) : write_all(fd, data, n);
    if (fd >= 0 && close(fd) != 0 && !err) err = strerror(errno);
    if (!in_place) {
        if (!err && rename(tmp.s, path) != 0) err = strerror(errno);
        if (err && fd >= 0) unlink(tmp.s);
    }
    buf_free(&tmp);
    return err;
}

void folder_make(const char *path)
{
    for (const char *s = *path ? strchr(path + 1, '/') : NULL; s; s = strchr(s + 1, '/')) {
        Buf part = {0};
        buf_write(&part, path, (size_t)(s - path));
        mkdir(part.s, 0777);
        buf_free(&part);
    }
    mkdir(path, 0777);
}
