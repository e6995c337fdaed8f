/* What a status says to a person. */

#include "abseil.h"

const char *absl_status_text(absl_status status)
{
    switch (status) {
    case ABSL_OK:
        return "ok";
    case ABSL_INVALID:
        return "invalid";
    case ABSL_EXHAUSTED:
        return "out of memory";
    }
    return "unknown status";
}
