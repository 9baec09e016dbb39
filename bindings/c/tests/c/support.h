/* What the test programs share. Each prints the name of each test that passes, and exits with 1 at the first that fails. */
#ifndef SUPPORT_H
#define SUPPORT_H

#include <festina.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPECT(condition)                                                                                          \
    do {                                                                                                           \
        if (!(condition)) {                                                                                        \
            fprintf(stderr, "%s:%d: not so: %s (last error: %s)\n", __FILE__, __LINE__, #condition, festina_last_error()); \
            exit(1);                                                                                               \
        }                                                                                                          \
    } while (0)

#define OK(call) EXPECT((call) == FESTINA_OK)

/* A function that writes a text fails: the caller's buffer `text` then holds an empty string. */
#define EMPTY(call)                                                                                                \
    do {                                                                                                           \
        memset(text, 'x', sizeof text);                                                                            \
        EXPECT((call) == 0 && text[0] == '\0');                                                                    \
    } while (0)

static char own_fingerprint[65];

/* Settings for both roles, of endpoints that know each other. */
static inline festina_config *settings(const char *profile_name)
{
    static festina_identity *identity;
    static festina_trust *trust;
    festina_config *config;

    if (identity == NULL) {
        OK(festina_identity_self_signed("server.test", &identity));
        EXPECT(festina_identity_fingerprint(identity, own_fingerprint, sizeof own_fingerprint) == 64);
        OK(festina_trust_fingerprints(own_fingerprint, &trust));
    }
    OK(festina_config_new(profile_name, &config));
    OK(festina_config_set_identity(config, identity));
    OK(festina_config_set_server_trust(config, trust));
    return config;
}

struct pair {
    festina_endpoint *server, *client;
    festina_listener *listener;
    festina_association *near, *far;
};

static inline struct pair connected(const festina_config *config)
{
    struct pair pair;
    festina_config *usual = config == NULL ? settings(NULL) : NULL;
    char address[64];

    OK(festina_endpoint_server("127.0.0.1:0", config == NULL ? usual : config, &pair.server));
    OK(festina_endpoint_client("127.0.0.1:0", config == NULL ? usual : config, &pair.client));
    OK(festina_config_free(usual));
    OK(festina_endpoint_listen(pair.server, 0, &pair.listener));
    EXPECT(festina_endpoint_local_address(pair.server, address, sizeof address) == strlen(address));
    OK(festina_endpoint_connect(pair.client, address, 0, 10000, &pair.near));
    OK(festina_listener_accept(pair.listener, 10000, &pair.far));
    return pair;
}

static inline void taken_apart(struct pair pair)
{
    festina_association_free(pair.near);
    festina_association_free(pair.far);
    festina_listener_free(pair.listener);
    OK(festina_endpoint_close(pair.client, 20000));
    OK(festina_endpoint_close(pair.server, 20000));
    festina_endpoint_free(pair.client);
    festina_endpoint_free(pair.server);
}

static inline int readable(int descriptor, int timeout_ms)
{
    struct pollfd polled;
    polled.fd = descriptor;
    polled.events = POLLIN;
    return poll(&polled, 1, timeout_ms) == 1;
}

#define KEEP(promise) (promise(), printf("%s\n", #promise), fflush(stdout))

#endif
