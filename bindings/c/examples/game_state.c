/*
 * A game server that sends the state of its players 30 times a second, and a program that watches the game.
 *
 *     game_state watch 127.0.0.1:9899
 *     game_state play 127.0.0.1:9899 FINGERPRINT 90
 *
 * The watching program creates a key and prints its fingerprint, by which the server knows it.
 *
 * A position is useful for 100 ms, and useless once there is a newer one of the same player, so no retransmission is wasted on it. The end of
 * the game must not be missed and is sent reliably, on a stream of its own.
 */
#define _POSIX_C_SOURCE 200809L

#include <festina.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PLAYERS = 4, STREAM_POSITIONS = 0, STREAM_CHAT = 1 };

struct position {
    uint32_t player, tick;
    float x, y;
};

static void check(festina_status status, const char *what)
{
    if (status != FESTINA_OK) {
        fprintf(stderr, "%s: %s\n", what, festina_last_error());
        exit(1);
    }
}

static void play(festina_association *association, uint32_t ticks)
{
    const struct timespec tick_time = {0, 1000000000 / 30};
    const char *end = "game over";
    festina_send_options position_options = FESTINA_SEND_OPTIONS_INIT, chat_options = FESTINA_SEND_OPTIONS_INIT;
    festina_stats stats = FESTINA_STATS_INIT;
    uint32_t tick, player;

    position_options.stream = STREAM_POSITIONS;
    position_options.flags = FESTINA_UNORDERED | FESTINA_REPLACING;
    position_options.lifetime_us = 100000;
    for (tick = 0; tick < ticks; tick++) {
        for (player = 0; player < PLAYERS; player++) {
            struct position position = {0, 0, 0, 0};
            position.player = player;
            position.tick = tick;
            position.x = (float)tick;
            position_options.key = player;
            check(festina_send(association, &position, sizeof position, &position_options, FESTINA_NOW, NULL), "send");
        }
        nanosleep(&tick_time, NULL);
    }
    chat_options.stream = STREAM_CHAT;
    check(festina_send(association, end, strlen(end), &chat_options, FESTINA_FOREVER, NULL), "send");
    check(festina_shutdown(association, 10000), "shut down");
    check(festina_get_stats(association, &stats), "stats");
    printf("%llu messages sent, %llu given up, round trip %.3f ms, %s, %llu retransmissions\n",
           (unsigned long long)stats.sent.messages, (unsigned long long)stats.sent.messages_abandoned,
           (double)stats.path.srtt_ns / 1e6, stats.path.thin ? "thin" : "not thin",
           (unsigned long long)stats.sent.retransmissions);
}

static void watch(festina_association *association)
{
    festina_message message = FESTINA_MESSAGE_INIT;
    festina_status status;
    unsigned positions = 0;

    while ((status = festina_recv(association, &message, 10000)) == FESTINA_OK) {
        if (message.stream == STREAM_CHAT)
            printf("%.*s\n", (int)message.length, (const char *)message.data);
        else if (message.length == sizeof(struct position))
            positions++;
        festina_message_free(&message);
    }
    printf("%u positions; %s\n", positions, festina_last_error());
    if (festina_get_close_reason(association) != FESTINA_CLOSE_SHUTDOWN)
        exit(1);
}

int main(int argc, char **argv)
{
    festina_config *config;
    festina_endpoint *endpoint;
    festina_listener *listener;
    festina_association *association;

    check(festina_config_new(NULL, &config), "settings");
    if (argc == 3 && strcmp(argv[1], "watch") == 0) {
        festina_identity *identity;
        char local[64], fingerprint[65];
        check(festina_identity_self_signed("game", &identity), "create a key");
        check(festina_config_set_identity(config, identity), "settings");
        check(festina_endpoint_server(argv[2], config, &endpoint), "bind");
        check(festina_endpoint_listen(endpoint, 0, &listener), "listen");
        festina_endpoint_local_address(endpoint, local, sizeof local);
        festina_identity_fingerprint(identity, fingerprint, sizeof fingerprint);
        printf("listening on %s\nfingerprint %s\n", local, fingerprint);
        fflush(stdout);
        festina_identity_free(identity);
        check(festina_listener_accept(listener, FESTINA_FOREVER, &association), "accept");
        festina_listener_free(listener);
        watch(association);
    } else if (argc == 5 && strcmp(argv[1], "play") == 0) {
        festina_trust *trust;
        check(festina_trust_fingerprints(argv[3], &trust), "fingerprint");
        check(festina_config_set_server_trust(config, trust), "settings");
        festina_trust_free(trust);
        check(festina_endpoint_client(argv[2][0] == '[' ? "[::]:0" : "0.0.0.0:0", config, &endpoint), "bind");
        check(festina_endpoint_connect(endpoint, argv[2], 0, 5000, &association), "connect");
        play(association, (uint32_t)strtoul(argv[4], NULL, 10));
    } else {
        fprintf(stderr, "usage: %s watch ADDRESS | %s play ADDRESS FINGERPRINT TICKS\n", argv[0], argv[0]);
        return 2;
    }
    festina_config_free(config);
    festina_association_free(association);
    check(festina_endpoint_close(endpoint, 5000), "close");
    festina_endpoint_free(endpoint);
    return 0;
}
