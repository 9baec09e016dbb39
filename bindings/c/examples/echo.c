/*
 * An echo server and a client for it.
 *
 *     echo listen 127.0.0.1:9899
 *     echo send 127.0.0.1:9899 FINGERPRINT "make haste slowly"
 *
 * The server creates a key and prints its fingerprint, by which the client knows it. It serves all peers from one thread with poll(2), like a
 * program with its own event loop.
 */
#define _POSIX_C_SOURCE 200809L

#include <festina.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PEERS_MAX = 64 };

static void check(festina_status status, const char *what)
{
    if (status != FESTINA_OK) {
        fprintf(stderr, "%s: %s\n", what, festina_last_error());
        exit(1);
    }
}

/* Sends all received messages back. Returns 0 if the association has ended. */
static int echo(festina_association *association)
{
    festina_message message = FESTINA_MESSAGE_INIT;
    festina_status status;

    while ((status = festina_recv(association, &message, FESTINA_NOW)) == FESTINA_OK) {
        festina_send_options options = FESTINA_SEND_OPTIONS_INIT;
        options.stream = message.stream;
        options.ppid = message.ppid;
        /* Send without waiting, so that a peer that does not read cannot block the others. */
        status = festina_send(association, message.data, message.length, &options, FESTINA_NOW, NULL);
        festina_message_free(&message);
        if (status == FESTINA_CLOSED)
            break;
    }
    return status != FESTINA_CLOSED;
}

static void serve(const char *address)
{
    festina_endpoint *endpoint;
    festina_listener *listener;
    festina_association *peers[PEERS_MAX];
    struct pollfd descriptors[PEERS_MAX + 1];
    festina_config *config;
    festina_identity *identity;
    char local[64], fingerprint[65];
    nfds_t count = 0, i;

    check(festina_identity_self_signed("echo", &identity), "create a key");
    check(festina_config_new(NULL, &config), "settings");
    check(festina_config_set_identity(config, identity), "settings");
    check(festina_endpoint_server(address, config, &endpoint), "bind");
    check(festina_endpoint_listen(endpoint, 0, &listener), "listen");
    festina_endpoint_local_address(endpoint, local, sizeof local);
    festina_identity_fingerprint(identity, fingerprint, sizeof fingerprint);
    printf("listening on %s\nfingerprint %s\n", local, fingerprint);
    fflush(stdout);
    festina_config_free(config);
    festina_identity_free(identity);

    descriptors[PEERS_MAX].fd = festina_listener_fd(listener);
    for (;;) {
        descriptors[count] = descriptors[PEERS_MAX];
        for (i = 0; i <= count; i++)
            descriptors[i].events = POLLIN;
        if (poll(descriptors, count + 1, -1) < 0)
            continue;
        if (descriptors[count].revents != 0 && count < PEERS_MAX
            && festina_listener_accept(listener, FESTINA_NOW, &peers[count]) == FESTINA_OK) {
            descriptors[count].fd = festina_message_fd(peers[count]);
            descriptors[count].revents = POLLIN;
            count++;
        }
        for (i = count; i-- > 0;) {
            if (descriptors[i].revents == 0 || echo(peers[i]))
                continue;
            printf("a peer is gone: %s\n", festina_last_error());
            fflush(stdout);
            festina_association_free(peers[i]);
            count--;
            peers[i] = peers[count];
            descriptors[i] = descriptors[count];
        }
    }
}

static void send_text(const char *address, const char *fingerprint, const char *text)
{
    festina_config *config;
    festina_trust *trust;
    festina_endpoint *endpoint;
    festina_association *association;
    festina_message answer = FESTINA_MESSAGE_INIT;
    uint64_t begun;

    check(festina_trust_fingerprints(fingerprint, &trust), "fingerprint");
    check(festina_config_new(NULL, &config), "settings");
    check(festina_config_set_server_trust(config, trust), "settings");
    check(festina_endpoint_client(address[0] == '[' ? "[::]:0" : "0.0.0.0:0", config, &endpoint), "bind");
    festina_config_free(config);
    festina_trust_free(trust);
    check(festina_endpoint_connect(endpoint, address, 0, 5000, &association), "connect");
    begun = festina_now_us();
    check(festina_send(association, text, strlen(text), NULL, FESTINA_FOREVER, NULL), "send");
    check(festina_recv(association, &answer, 5000), "receive");
    printf("%.*s after %llu us\n", (int)answer.length, (const char *)answer.data,
           (unsigned long long)(festina_now_us() - begun));
    festina_message_free(&answer);
    check(festina_shutdown(association, 5000), "shut down");
    festina_association_free(association);
    check(festina_endpoint_close(endpoint, 5000), "close");
    festina_endpoint_free(endpoint);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "listen") == 0) {
        serve(argv[2]);
    } else if (argc == 5 && strcmp(argv[1], "send") == 0) {
        send_text(argv[2], argv[3], argv[4]);
    } else {
        fprintf(stderr, "usage: %s listen ADDRESS | %s send ADDRESS FINGERPRINT TEXT\n", argv[0], argv[0]);
        return 2;
    }
    return 0;
}
