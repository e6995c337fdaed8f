/* abseil: what a small library needs when it has no libc. Memory, strings, a hash, a status.

   A namesake of Abseil, written for this course. */

#ifndef ABSEIL_H
#define ABSEIL_H

#include <stddef.h>
#include <stdint.h>

typedef enum {
    ABSL_OK,
    ABSL_INVALID,  /* what was asked makes no sense */
    ABSL_EXHAUSTED /* the memory that was given is used up */
} absl_status;

/* Memory that a caller gave, handed out piece by piece and never taken back. */
typedef struct {
    unsigned char *memory;
    size_t size;
    size_t used;
} absl_arena;

void absl_arena_init(absl_arena *arena, void *memory, size_t size);
void *absl_arena_take(absl_arena *arena, size_t bytes); /* NULL if there is no room */

size_t absl_length(const char *text);
int absl_contains(const char *text, char c); /* 1 or 0; the end of the text is no part of it */
uint64_t absl_hash(const char *text);
const char *absl_status_text(absl_status status);

#endif
