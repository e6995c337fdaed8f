/* An arena: memory that is handed out from the front, each piece aligned for any type. */

#include "abseil.h"

enum { ALIGNMENT = 16 };

void absl_arena_init(absl_arena *arena, void *memory, size_t size)
{
    arena->memory = memory;
    arena->size = size;
    arena->used = 0;
}

void *absl_arena_take(absl_arena *arena, size_t bytes)
{
    uintptr_t next = (uintptr_t)arena->memory + arena->used;
    size_t gap = (ALIGNMENT - next % ALIGNMENT) % ALIGNMENT;
    size_t left = arena->size - arena->used;
    if (gap > left || bytes > left - gap)
        return NULL;
    arena->used += gap + bytes;
    return arena->memory + arena->used - bytes;
}
