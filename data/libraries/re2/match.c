/* The matcher: it is at several steps of the program at once and moves all of them on by one byte
   of the text. No step is there twice, so that the time is linear in the text. */

#include "program.h"

typedef struct {
    int count;
    int places[MOST_STEPS];
    char there[MOST_STEPS];
} crowd;

static void clear(crowd *all, int steps)
{
    all->count = 0;
    for (int i = 0; i < steps; i++)
        all->there[i] = 0;
}

/* Put somebody at a step, and wherever one gets from it without taking a byte. */
static void enter(crowd *all, const re2 *re, int place)
{
    if (all->there[place])
        return;
    all->there[place] = 1;
    const step *here = &re->steps[place];
    if (here->kind == BOTH) {
        enter(all, re, here->a);
        enter(all, re, here->b);
    } else {
        all->places[all->count++] = place;
    }
}

static int done(const crowd *all, const re2 *re)
{
    return all->there[re->count - 1]; /* the last step is DONE */
}

static int match(const re2 *re, const char *text, int partial)
{
    crowd crowds[2], *now = &crowds[0], *next = &crowds[1];
    clear(now, re->count);
    enter(now, re, 0);
    for (; *text && !(partial && done(now, re)); text++) {
        clear(next, re->count);
        for (int i = 0; i < now->count; i++) {
            const step *here = &re->steps[now->places[i]];
            if (here->kind == TAKE && set_has(here->set, *text))
                enter(next, re, here->a);
        }
        if (partial) /* a match may begin at any byte */
            enter(next, re, 0);
        crowd *spare = now;
        now = next;
        next = spare;
    }
    return done(now, re);
}

int re2_full_match(const re2 *re, const char *text)
{
    return match(re, text, 0);
}

int re2_partial_match(const re2 *re, const char *text)
{
    return match(re, text, 1);
}
