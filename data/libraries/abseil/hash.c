/* FNV-1a, 64 bits: the same text has the same hash on every machine. */

#include "abseil.h"

uint64_t absl_hash(const char *text)
{
    uint64_t hash = 14695981039346656037u;
    for (; *text; text++) {
        hash ^= (unsigned char)*text;
        hash *= 1099511628211u;
    }
    return hash;
}
