/* A call that fails in an exit handler, when the thread-local variables of the main thread are gone, returns like any other. */
#define _POSIX_C_SOURCE 200809L

#include "support.h"

#include <unistd.h>

static void fails_once_more(void)
{
    if (festina_message_fd(NULL) != -1 || festina_last_error()[0] == '\0')
        _exit(2);
    puts("a failing call in an exit handler returns");
}

int main(void)
{
    EXPECT(atexit(fails_once_more) == 0);
    EXPECT(festina_message_fd(NULL) == -1);
    EXPECT(strcmp(festina_last_error(), "association is NULL") == 0);
    return 0;
}
