/* Texts: bytes with a zero at their end. */

#include "abseil.h"

size_t absl_length(const char *text)
{
    size_t length = 0;
    while (text[length])
        length++;
    return length;
}

int absl_contains(const char *text, char c)
{
    for (; *text; text++)
        if (*text == c)
            return 1;
    return 0;
}
