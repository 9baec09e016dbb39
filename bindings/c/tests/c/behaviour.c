/* Tests the guarantees of festina.h from C. Prints the name of each test that passes; exits with 1 at the first that fails. */
#define _DEFAULT_SOURCE

#include "support.h"

#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void messages_arrive_with_what_was_said_of_them(void)
{
    struct pair pair = connected(NULL);
    festina_send_options options = FESTINA_SEND_OPTIONS_INIT;
    festina_message message = FESTINA_MESSAGE_INIT;
    festina_stats stats = FESTINA_STATS_INIT;
    uint64_t id = 77;
    char address[64];

    options.stream = 7;
    options.ppid = 51;
    options.flags = FESTINA_UNORDERED;
    OK(festina_send(pair.near, "make haste", 10, &options, FESTINA_FOREVER, &id));
    EXPECT(id == 0);
    OK(festina_send(pair.near, "slowly", 6, NULL, FESTINA_FOREVER, &id));
    EXPECT(id == 1);
    OK(festina_recv(pair.far, &message, 10000));
    EXPECT(message.length == 10 && memcmp(message.data, "make haste", 10) == 0);
    EXPECT(message.stream == 7 && message.ppid == 51 && message.flags == FESTINA_UNORDERED);
    OK(festina_message_free(&message));
    EXPECT(message.data == NULL && message.size == sizeof message);
    OK(festina_message_free(&message));
    OK(festina_recv(pair.far, &message, 10000));
    EXPECT(message.length == 6 && message.stream == 0 && message.ppid == 0 && message.flags == 0);
    OK(festina_message_free(&message));
    EXPECT(festina_recv(pair.far, &message, FESTINA_NOW) == FESTINA_TIMEOUT);
    EXPECT(festina_recv(pair.far, &message, 20) == FESTINA_TIMEOUT);

    OK(festina_drained(pair.near, 10000));
    OK(festina_get_stats(pair.near, &stats));
    EXPECT(stats.sent.messages == 2 && stats.sent.messages_acked == 2 && stats.path.send_buffer_bytes == 0);
    EXPECT(stats.size == sizeof stats && stats.path.rto_ns > 0);
    EXPECT(festina_get_remote_address(pair.near, address, 5) > 10 && strcmp(address, "127.") == 0);
    EXPECT(strcmp(festina_get_profile(pair.near), "festina") == 0);
    OK(festina_set_profile(pair.near, "rfc9260"));
    EXPECT(strcmp(festina_get_profile(pair.near), "rfc9260") == 0);
    taken_apart(pair);
}

#ifdef __linux__
static void each_address_of_the_peer_is_a_path(void)
{
    festina_config *config = settings(NULL);
    festina_path path = FESTINA_PATH_INIT;
    struct pair pair;
    char address[64];

    EXPECT(festina_config_set_other_addresses(config, "127.0.0.2 localhost") == FESTINA_INVALID);
    EXPECT(festina_config_set_path_policy(config, "all") == FESTINA_INVALID);
    EXPECT(festina_config_set_paths_max(config, 0) == FESTINA_INVALID && festina_config_set_paths_max(config, 9) == FESTINA_INVALID);
    OK(festina_config_set_other_addresses(config, "127.0.0.2"));
    OK(festina_config_set_path_policy(config, "copies"));
    OK(festina_config_set_paths_max(config, 2));
    pair = connected(config);
    festina_config_free(config);
    EXPECT(festina_get_path_count(pair.near) == 2);
    OK(festina_get_path(pair.near, 0, &path));
    festina_get_remote_address(pair.near, address, sizeof address);
    EXPECT(strcmp(path.address, address) == 0 && path.state == FESTINA_PATH_ACTIVE);
    do {
        usleep(1000);
        OK(festina_get_path(pair.near, 1, &path));
    } while (path.state == FESTINA_PATH_UNCONFIRMED);
    EXPECT(strncmp(path.address, "127.0.0.2:", 10) == 0);
    EXPECT(path.state == FESTINA_PATH_ACTIVE && path.rto_ns > 0 && path.errors == 0);
    EXPECT(festina_get_path(pair.near, 2, &path) == FESTINA_INVALID);
    EXPECT(festina_get_path(NULL, 0, &path) == FESTINA_INVALID && festina_get_path_count(NULL) == 0);
    taken_apart(pair);
}
#endif

static void programs_that_know_smaller_structs_get_no_more_than_fits(void)
{
    struct pair pair = connected(NULL);
    struct {
        festina_stats stats;
        uint64_t behind;
    } newer = {FESTINA_STATS_INIT, 1234567};
    festina_message message = FESTINA_MESSAGE_INIT;
    festina_send_options options = FESTINA_SEND_OPTIONS_INIT;

    /* Newer than the library: fields that it does not know stay unchanged. */
    newer.stats.size += sizeof newer.behind;
    OK(festina_get_stats(pair.near, &newer.stats));
    EXPECT(newer.behind == 1234567 && newer.stats.path.rto_ns > 0);
    /* Smaller than the first version, so not a valid struct. */
    message.size = sizeof message - 1;
    EXPECT(festina_recv(pair.near, &message, FESTINA_NOW) == FESTINA_INVALID);
    options.size = 0;
    EXPECT(festina_send(pair.near, "x", 1, &options, FESTINA_NOW, NULL) == FESTINA_INVALID);
    EXPECT(strstr(festina_last_error(), "0 bytes") != NULL);
    taken_apart(pair);
}

static void mistakes_are_told(void)
{
    struct pair pair = connected(NULL);
    festina_endpoint *endpoint = NULL;
    festina_listener *listener = NULL;
    festina_association *association = NULL;
    festina_config *config = NULL;
    festina_send_options options = FESTINA_SEND_OPTIONS_INIT;
    festina_message message = FESTINA_MESSAGE_INIT;
    char address[64], text[8];
    size_t count = 0;

    EMPTY(festina_endpoint_local_address(NULL, text, sizeof text));
    EMPTY(festina_get_remote_address(NULL, text, sizeof text));
    EMPTY(festina_get_close_text(NULL, text, sizeof text));
    EMPTY(festina_get_close_sentence(NULL, text, sizeof text));
    EXPECT(festina_endpoint_client(NULL, NULL, &endpoint) == FESTINA_INVALID);
    EXPECT(festina_endpoint_client("nonsense", NULL, &endpoint) == FESTINA_INVALID);
    EXPECT(strstr(festina_last_error(), "nonsense") != NULL);
    EXPECT(festina_endpoint_client("127.0.0.1:0", NULL, NULL) == FESTINA_INVALID);
    festina_endpoint_local_address(pair.server, address, sizeof address);
    EXPECT(festina_endpoint_client(address, NULL, &endpoint) == FESTINA_SYSTEM);
    EXPECT(festina_endpoint_listen(pair.server, 0, &listener) == FESTINA_LIMIT);
    EXPECT(festina_endpoint_connect(pair.client, address, 6, 10000, &association) == FESTINA_REFUSED);
    EXPECT(festina_endpoint_connect(pair.client, "127.0.0.1:1", 0, 50, &association) == FESTINA_UNREACHABLE);
    EXPECT(endpoint == NULL && listener == NULL && association == NULL);
    EXPECT(festina_endpoint_connect(pair.client, "localhost", 0, 10000, &association) == FESTINA_INVALID);
    EXPECT(festina_endpoint_connect(pair.client, "[::1]:9", 0, 10000, &association) == FESTINA_INVALID);
    EXPECT(festina_endpoint_connect(pair.client, address, 0, -2, &association) == FESTINA_INVALID);
    EXPECT(strstr(festina_last_error(), "timeout_ms is -2") != NULL);
    EXPECT(festina_recv(pair.near, &message, INT_MIN) == FESTINA_INVALID);
    EXPECT(festina_send(pair.near, "x", 1, NULL, -2, NULL) == FESTINA_INVALID);
    EXPECT(festina_drained(pair.near, -7) == FESTINA_INVALID && festina_shutdown(pair.near, -7) == FESTINA_INVALID);
    EXPECT(festina_endpoint_close(pair.client, -7) == FESTINA_INVALID);
    EXPECT(festina_listener_accept(pair.listener, -7, &association) == FESTINA_INVALID);

    EXPECT(festina_send(NULL, "x", 1, NULL, FESTINA_NOW, NULL) == FESTINA_INVALID);
    EXPECT(festina_send(pair.near, NULL, 1, NULL, FESTINA_NOW, NULL) == FESTINA_INVALID);
    EXPECT(strcmp(festina_last_error(), "data is NULL") == 0);
    EXPECT(festina_send(pair.near, "", 0, NULL, FESTINA_NOW, NULL) == FESTINA_INVALID);
    /* The length must be refused without a copy, which would crash the program. */
    for (count = 20; count < sizeof(size_t) * 8; count++)
        EXPECT(festina_send(pair.near, "x", ((size_t)1 << count) + 1, NULL, FESTINA_NOW, NULL) == FESTINA_INVALID);
    EXPECT(festina_send(pair.near, "x", SIZE_MAX, NULL, FESTINA_NOW, NULL) == FESTINA_INVALID);
    EXPECT(strstr(festina_last_error(), " bytes, but at most 1048576 are allowed") != NULL);
    count = 0;
    options.flags = 1u << 31;
    EXPECT(festina_send(pair.near, "x", 1, &options, FESTINA_NOW, NULL) == FESTINA_INVALID);
    options.flags = 0;
    options.priority = 65536;
    EXPECT(festina_send(pair.near, "x", 1, &options, FESTINA_NOW, NULL) == FESTINA_INVALID);
    EXPECT(strstr(festina_last_error(), "priority is 65536") != NULL);
    options.priority = -1;
    /* An expired deadline does not turn into a message without a deadline. */
    options.lifetime_us = -250;
    EXPECT(festina_send(pair.near, "x", 1, &options, FESTINA_NOW, NULL) == FESTINA_INVALID);
    EXPECT(strstr(festina_last_error(), "lifetime_us is -250") != NULL);
    EXPECT(festina_recv(NULL, &message, FESTINA_NOW) == FESTINA_INVALID);
    EXPECT(festina_recv(pair.near, NULL, FESTINA_NOW) == FESTINA_INVALID);
    EXPECT(festina_message_fd(NULL) == -1);
    OK(festina_association_free(NULL));
    OK(festina_message_free(NULL));

    EXPECT(festina_config_new("reno", &config) == FESTINA_INVALID && config == NULL);
    EXPECT(strstr(festina_last_error(), "festina") != NULL);
    while (festina_profile_name(count) != NULL)
        OK(festina_config_new(festina_profile_name(count++), &config) || festina_config_free(config));
    EXPECT(count == 3);
    OK(festina_config_new(NULL, &config));
    for (count = 0; festina_congestion_name(count) != NULL; count++)
        OK(festina_config_set_congestion(config, festina_congestion_name(count)));
    EXPECT(count > 1);
    EXPECT(festina_config_set_congestion(config, "none") == FESTINA_INVALID);
    EXPECT(festina_config_set_send_buffer_bytes(config, 1) == FESTINA_INVALID);
    EXPECT(festina_config_set_send_buffer_bytes(config, SIZE_MAX) == FESTINA_INVALID);
    EXPECT(festina_config_set_receive_buffer_bytes(config, SIZE_MAX) == FESTINA_INVALID);
    EXPECT(festina_config_set_message_bytes_max(config, SIZE_MAX) == FESTINA_INVALID);
    EXPECT(festina_config_set_packet_bytes_max(config, SIZE_MAX) == FESTINA_INVALID);
    EXPECT(festina_config_set_associations_max(config, SIZE_MAX) == FESTINA_INVALID);
    EXPECT(festina_config_set_send_buffer_bytes(NULL, 65536) == FESTINA_INVALID);
    OK(festina_config_free(config));
    taken_apart(pair);
}

static void hosts_have_names_and_full_ones_say_so(void)
{
    festina_config *config;
    festina_endpoint *server, *client;
    festina_listener *listener;
    festina_association *first, *second = NULL;
    char address[64], host[80];

    config = settings(NULL);
    OK(festina_config_set_associations_max(config, 1));
    OK(festina_endpoint_server("127.0.0.1:0", config, &server));
    OK(festina_config_free(config));
    config = settings(NULL);
    OK(festina_endpoint_client("127.0.0.1:0", config, &client));
    OK(festina_config_free(config));
    OK(festina_endpoint_listen(server, 0, &listener));
    festina_endpoint_local_address(server, address, sizeof address);
    snprintf(host, sizeof host, "localhost%s", strrchr(address, ':'));
    OK(festina_endpoint_connect(client, host, 0, 10000, &first));
    EXPECT(festina_endpoint_connect(client, host, 0, 10000, &second) == FESTINA_FULL && second == NULL);
    EXPECT(strstr(festina_last_error(), "full") != NULL);
    festina_association_free(first);
    festina_listener_free(listener);
    OK(festina_endpoint_close(client, 20000));
    OK(festina_endpoint_close(server, 20000));
    festina_endpoint_free(client);
    festina_endpoint_free(server);
}

static void what_is_replaced_is_counted_by_whether_it_was_sent(void)
{
    static char bulk[1000];
    festina_config *config;
    struct pair pair;
    festina_send_options options = FESTINA_SEND_OPTIONS_INIT;
    festina_stats stats = FESTINA_STATS_INIT;
    festina_message message = FESTINA_MESSAGE_INIT;
    int i;

    config = settings(NULL);
    OK(festina_config_set_receive_buffer_bytes(config, 2000));
    pair = connected(config);
    festina_config_free(config);
    /* The peer does not read, so its window closes and messages wait. */
    for (i = 0; i < 8; i++)
        OK(festina_send(pair.near, bulk, sizeof bulk, NULL, FESTINA_FOREVER, NULL));
    options.flags = FESTINA_REPLACING;
    for (i = 0; i < 3; i++)
        OK(festina_send(pair.near, "position", 8, &options, FESTINA_FOREVER, NULL));
    OK(festina_get_stats(pair.near, &stats));
    EXPECT(stats.abandoned.replaced.unsent == 2 && stats.abandoned.replaced.sent == 0);
    EXPECT(stats.sent.messages_abandoned == 2 && stats.abandoned.expired.unsent == 0);
    EXPECT(stats.messages_abandoned_sent == 0);
    /* It answers all the same. */
    for (i = 0; i < 1000 && stats.peer_window_closed_ns == 0; i++) {
        EXPECT(festina_recv(pair.near, &message, 10) == FESTINA_TIMEOUT);
        OK(festina_get_stats(pair.near, &stats));
    }
    EXPECT(stats.peer_window_closed_ns > 0);
    OK(festina_abort(pair.near, NULL));
    taken_apart(pair);
}

static void a_full_buffer_and_every_setting(void)
{
    static char bulk[60000];
    festina_config *config;
    struct pair pair;
    festina_message message = FESTINA_MESSAGE_INIT;
    int taken = 0, sent;

    config = settings("rack");
    OK(festina_config_set_peer_timeout(config, 10000));
    OK(festina_config_set_heartbeat_interval(config, 0));
    OK(festina_config_set_sack_delay(config, 0));
    OK(festina_config_set_message_bytes_max(config, sizeof bulk));
    OK(festina_config_set_packet_bytes_max(config, 1000));
    OK(festina_config_set_send_buffer_bytes(config, 200000));
    OK(festina_config_set_receive_buffer_bytes(config, 100000));
    OK(festina_config_set_send_delay(config, 1000));
    OK(festina_config_set_send_delay(config, 0));
    OK(festina_config_set_streams(config, 10, 10));
    OK(festina_config_set_interleaving(config, 1));
    OK(festina_config_set_peer_moves(config, 0));
    OK(festina_config_set_associations_max(config, 2));
    pair = connected(config);
    festina_config_free(config);
    EXPECT(strcmp(festina_get_profile(pair.near), "rack") == 0);

    EXPECT(festina_send(pair.near, bulk, sizeof bulk + 1, NULL, FESTINA_NOW, NULL) == FESTINA_INVALID);
    /* As much as fits into the peer's receive buffer is sent meanwhile, on a slow machine after the 200 ms, too. */
    do {
        while ((sent = festina_send(pair.near, bulk, sizeof bulk, NULL, 200, NULL)) == FESTINA_OK)
            taken++;
        EXPECT(sent == FESTINA_TIMEOUT);
        sent = festina_send(pair.near, bulk, sizeof bulk, NULL, FESTINA_NOW, NULL);
        taken += sent == FESTINA_OK;
    } while (sent == FESTINA_OK);
    EXPECT(sent == FESTINA_TIMEOUT);
    EXPECT(taken >= 3 && taken <= 6);
    EXPECT(festina_drained(pair.near, 30) == FESTINA_TIMEOUT);
    while (taken-- > 0) {
        OK(festina_recv(pair.far, &message, 10000));
        EXPECT(message.length == sizeof bulk);
        festina_message_free(&message);
    }
    OK(festina_send(pair.near, bulk, sizeof bulk, NULL, 10000, NULL));
    taken_apart(pair);
}

static void descriptors_are_readable_as_long_as_there_is_something(void)
{
    struct pair pair = connected(NULL);
    festina_message message = FESTINA_MESSAGE_INIT;
    festina_association *another;
    char address[64];
    int descriptor = festina_message_fd(pair.far), listening = festina_listener_fd(pair.listener), round, i;

    EXPECT(descriptor >= 0 && festina_message_fd(pair.far) == descriptor);
    EXPECT(festina_recv(pair.far, &message, FESTINA_NOW) == FESTINA_TIMEOUT);
    EXPECT(!readable(descriptor, 0));
    for (round = 0; round < 100; round++) {
        for (i = 0; i < 3; i++)
            OK(festina_send(pair.near, "tick", 4, NULL, FESTINA_FOREVER, NULL));
        for (i = 0; i < 3; i++) {
            EXPECT(readable(descriptor, 10000));
            OK(festina_recv(pair.far, &message, 10000));
            festina_message_free(&message);
        }
        EXPECT(festina_recv(pair.far, &message, FESTINA_NOW) == FESTINA_TIMEOUT);
        EXPECT(!readable(descriptor, 0));
    }

    EXPECT(festina_listener_accept(pair.listener, FESTINA_NOW, &another) == FESTINA_TIMEOUT);
    EXPECT(!readable(listening, 0));
    festina_endpoint_local_address(pair.server, address, sizeof address);
    OK(festina_endpoint_connect(pair.client, address, 0, 10000, &another));
    EXPECT(readable(listening, 10000));
    OK(festina_association_free(another));
    OK(festina_listener_accept(pair.listener, 10000, &another));
    EXPECT(festina_recv(another, &message, 10000) == FESTINA_CLOSED);
    OK(festina_association_free(another));

    OK(festina_shutdown(pair.near, 10000));
    /* A wake-up that comes late makes it readable once although nothing is there. */
    do
        EXPECT(readable(descriptor, 10000));
    while (festina_recv(pair.far, &message, FESTINA_NOW) == FESTINA_TIMEOUT);
    EXPECT(festina_recv(pair.far, &message, FESTINA_NOW) == FESTINA_CLOSED);
    EXPECT(readable(descriptor, 0));
    taken_apart(pair);
}

enum { PEERS = 50 };

static void fifty_handshakes_go_on_at_once_and_one_wait_is_for_all(void)
{
    struct pair pair = connected(NULL);
    festina_connecting *connecting[PEERS], *mute;
    festina_association *near[PEERS] = {NULL}, *far[PEERS], *none = NULL;
    festina_message message = FESTINA_MESSAGE_INIT;
    festina_ready ready[7];
    char address[64];
    size_t i, k, count, connected_count = 0, accepted = 0, heard = 0;

    festina_endpoint_local_address(pair.server, address, sizeof address);
    for (i = 0; i < PEERS; i++) {
        OK(festina_endpoint_start_connect(pair.client, address, 0, 20000, &connecting[i]));
        OK(festina_connecting_set_token(connecting[i], 1000 + i));
    }
    while (connected_count < PEERS) {
        EXPECT(readable(festina_endpoint_fd(pair.client), 20000));
        if (festina_endpoint_ready(pair.client, ready, 7, FESTINA_NOW, &count) == FESTINA_TIMEOUT)
            continue;
        EXPECT(count >= 1 && count <= 7);
        for (k = 0; k < count; k++) {
            i = (size_t)ready[k].token - 1000;
            if (ready[k].kind == FESTINA_READY_CONNECT && near[i] == NULL
                && festina_connecting_finish(connecting[i], FESTINA_NOW, &near[i]) == FESTINA_OK)
                connected_count++;
        }
    }
    EXPECT(festina_connecting_finish(connecting[0], FESTINA_FOREVER, &none) == FESTINA_INVALID && none == NULL);
    OK(festina_listener_set_token(pair.listener, 7));
    while (accepted < PEERS) {
        OK(festina_listener_accept(pair.listener, 20000, &far[accepted]));
        OK(festina_association_set_token(far[accepted], accepted));
        accepted++;
    }
    for (i = 0; i < PEERS; i++)
        OK(festina_send(near[i], "here", 4, NULL, FESTINA_FOREVER, NULL));
    while (heard < PEERS) {
        OK(festina_endpoint_ready(pair.server, ready, 7, 20000, &count));
        for (k = 0; k < count; k++)
            if (ready[k].kind == FESTINA_READY_MESSAGE && ready[k].token < PEERS)
                while (festina_recv(far[ready[k].token], &message, FESTINA_NOW) == FESTINA_OK) {
                    heard++;
                    festina_message_free(&message);
                }
    }
    /* Cancelled and freed objects are not reported. */
    OK(festina_endpoint_start_connect(pair.client, "127.0.0.1:9", 0, FESTINA_FOREVER, &mute));
    EXPECT(festina_connecting_fd(mute) >= 0 && festina_connecting_fd(NULL) == -1);
    EXPECT(festina_connecting_finish(mute, 20, &none) == FESTINA_TIMEOUT);
    OK(festina_connecting_free(mute));
    for (i = 0; i < PEERS; i++) {
        OK(festina_connecting_free(connecting[i]));
        OK(festina_association_free(near[i]));
        OK(festina_association_free(far[i]));
    }
    EXPECT(festina_endpoint_ready(pair.server, ready, 0, FESTINA_NOW, &count) == FESTINA_INVALID);
    EXPECT(festina_endpoint_ready(pair.server, NULL, 7, FESTINA_NOW, &count) == FESTINA_INVALID);
    EXPECT(festina_endpoint_fd(NULL) == -1);
    taken_apart(pair);
}

static void the_descriptor_of_an_endpoint_is_readable_only_while_something_is_ready(void)
{
    festina_config *config = settings(NULL);
    struct pair pair = connected(config);
    festina_endpoint *idle;
    festina_message message = FESTINA_MESSAGE_INIT;
    festina_ready ready[4];
    size_t count;
    int descriptor;

    OK(festina_endpoint_client("127.0.0.1:0", config, &idle));
    festina_config_free(config);
    descriptor = festina_endpoint_fd(idle);
    EXPECT(festina_endpoint_ready(idle, ready, 4, FESTINA_NOW, &count) == FESTINA_TIMEOUT);
    EXPECT(!readable(descriptor, 0));
    OK(festina_endpoint_free(idle));

    descriptor = festina_endpoint_fd(pair.server);
    OK(festina_shutdown(pair.near, 10000));
    EXPECT(festina_recv(pair.far, &message, 10000) == FESTINA_CLOSED);
    while (festina_endpoint_ready(pair.server, ready, 4, FESTINA_NOW, &count) == FESTINA_OK)
        continue;
    EXPECT(!readable(descriptor, 0));
    /* It is ready again, and then gone. */
    EXPECT(festina_recv(pair.far, &message, FESTINA_NOW) == FESTINA_CLOSED);
    EXPECT(readable(descriptor, 0));
    OK(festina_association_free(pair.far));
    pair.far = NULL;
    EXPECT(festina_endpoint_ready(pair.server, ready, 4, FESTINA_NOW, &count) == FESTINA_TIMEOUT);
    EXPECT(!readable(descriptor, 0));
    taken_apart(pair);
}

static void many_messages_leave_with_one_call(void)
{
    static char bulk[20000], large[60001];
    festina_config *config;
    struct pair pair;
    festina_send_options options = FESTINA_SEND_OPTIONS_INIT;
    festina_outgoing messages[600];
    festina_message message = FESTINA_MESSAGE_INIT;
    festina_stats before = FESTINA_STATS_INIT, after = FESTINA_STATS_INIT;
    size_t i, sent = 77;

    config = settings(NULL);
    OK(festina_config_set_streams(config, 10, 10));
    OK(festina_config_set_send_buffer_bytes(config, 100000));
    OK(festina_config_set_receive_buffer_bytes(config, 60000));
    pair = connected(config);
    festina_config_free(config);
    options.stream = 3;
    for (i = 0; i < 600; i++) {
        messages[i].data = "position";
        messages[i].length = 8;
        messages[i].options = i % 2 ? &options : NULL;
    }
    messages[599].length = 0;
    EXPECT(festina_send_many(pair.near, messages, 600, FESTINA_FOREVER, &sent) == FESTINA_INVALID && sent == 0);
    OK(festina_send_many(pair.near, messages, 599, 10000, &sent));
    EXPECT(sent == 599);
    for (i = 0; i < 599; i++) {
        OK(festina_recv(pair.far, &message, 10000));
        EXPECT(message.length == 8 && (message.stream == 0 || message.stream == 3));
        festina_message_free(&message);
    }

    /* The peer has no such stream, or not that much room: nothing of the batch is sent. */
    OK(festina_get_stats(pair.near, &before));
    options.stream = 10;
    EXPECT(festina_send_many(pair.near, messages, 2, FESTINA_NOW, &sent) == FESTINA_INVALID && sent == 0);
    EXPECT(strstr(festina_last_error(), "stream 10") != NULL);
    options.stream = 3;
    messages[1].data = large;
    messages[1].length = sizeof large;
    EXPECT(festina_send_many(pair.near, messages, 2, FESTINA_NOW, &sent) == FESTINA_INVALID && sent == 0);
    EXPECT(strstr(festina_last_error(), "60000") != NULL);
    OK(festina_get_stats(pair.near, &after));
    EXPECT(after.sent.messages == before.sent.messages && after.path.messages_pending == before.path.messages_pending);

    for (i = 0; i < 10; i++) {
        messages[i].data = bulk;
        messages[i].length = sizeof bulk;
    }
    EXPECT(festina_send_many(pair.near, messages, 10, 100, &sent) == FESTINA_TIMEOUT && sent >= 2 && sent < 10);
    OK(festina_recv(pair.far, &message, 10000));
    EXPECT(message.length == sizeof bulk);
    festina_message_free(&message);
    EXPECT(festina_send_many(pair.near, NULL, 1, FESTINA_NOW, &sent) == FESTINA_INVALID && sent == 0);
    EXPECT(strcmp(festina_last_error(), "messages is NULL") == 0);
    EXPECT(festina_send_many(pair.near, messages, SIZE_MAX, FESTINA_NOW, NULL) == FESTINA_INVALID);
    OK(festina_send_many(pair.near, NULL, 0, FESTINA_NOW, &sent));
    OK(festina_abort(pair.near, NULL));
    taken_apart(pair);
}

static void what_becomes_of_messages_is_told(void)
{
    struct pair pair = connected(NULL);
    festina_send_options options = FESTINA_SEND_OPTIONS_INIT;
    festina_event event = FESTINA_EVENT_INIT;
    int descriptor = festina_event_fd(pair.near);
    uint64_t begun = festina_now_us(), id;

    while (festina_next_event(pair.near, &event, FESTINA_NOW) == FESTINA_OK)
        ;
    EXPECT(!readable(descriptor, 0));
    options.flags = FESTINA_CONFIRM;
    OK(festina_send(pair.near, "there?", 6, &options, FESTINA_FOREVER, &id));
    EXPECT(readable(descriptor, 10000));
    OK(festina_next_event(pair.near, &event, FESTINA_NOW));
    EXPECT(event.kind == FESTINA_EVENT_DELIVERED && event.first == id && event.last == id);
    EXPECT(event.at_us >= begun && event.at_us <= festina_now_us());
    EXPECT(festina_next_event(pair.near, &event, 20) == FESTINA_TIMEOUT);

    /* Its deadline has long passed. */
    options.flags = 0;
    options.deadline_us = (int64_t)begun - 1;
    OK(festina_send(pair.near, "too late", 8, &options, FESTINA_FOREVER, &id));
    OK(festina_next_event(pair.near, &event, 10000));
    EXPECT(event.kind == FESTINA_EVENT_ABANDONED && event.first == id && event.sent == 0);
    EXPECT(event.reason == FESTINA_ABANDON_EXPIRED);

    OK(festina_abort(pair.far, "enough of it"));
    OK(festina_next_event(pair.near, &event, 10000));
    EXPECT(event.kind == FESTINA_EVENT_CLOSED);
    EXPECT(festina_next_event(pair.near, &event, FESTINA_FOREVER) == FESTINA_CLOSED);
    taken_apart(pair);
}

static void the_end_is_told_with_its_reason(void)
{
    struct pair pair = connected(NULL);
    festina_message message = FESTINA_MESSAGE_INIT;
    festina_association *none = NULL;
    char text[64];

    EXPECT(festina_get_close_reason(pair.near) == FESTINA_CLOSE_NONE);
    EXPECT(festina_get_close_text(pair.near, text, sizeof text) == 0 && text[0] == '\0');
    EXPECT(festina_get_close_sentence(pair.near, text, sizeof text) == 0 && text[0] == '\0');
    OK(festina_abort(pair.far, "enough of it"));
    EXPECT(festina_recv(pair.near, &message, 10000) == FESTINA_CLOSED);
    EXPECT(festina_get_close_reason(pair.near) == FESTINA_CLOSE_ABORTED_BY_PEER);
    EXPECT(festina_get_close_reason(pair.far) == FESTINA_CLOSE_ABORTED);
    EXPECT(festina_get_close_text(pair.near, text, sizeof text) == 12 && strcmp(text, "enough of it") == 0);
    EXPECT(festina_get_close_sentence(pair.near, text, sizeof text) == 35);
    EXPECT(strcmp(text, "aborted by the peer: \"enough of it\"") == 0);
    EXPECT(festina_get_close_sentence(pair.far, text, sizeof text) > 0 && strcmp(text, "aborted by this side") == 0);
    EXPECT(strstr(festina_last_error(), "aborted by the peer: \"enough of it\"") != NULL);
    EXPECT(festina_send(pair.near, "x", 1, NULL, FESTINA_NOW, NULL) == FESTINA_CLOSED);
    EXPECT(festina_shutdown(pair.near, 10000) == FESTINA_CLOSED);
    OK(festina_endpoint_close(pair.server, 10000));
    EXPECT(festina_listener_accept(pair.listener, FESTINA_FOREVER, &none) == FESTINA_CLOSED && none == NULL);
    taken_apart(pair);
}

static void handles_are_freed_in_any_order(void)
{
    struct pair pair = connected(NULL);
    festina_message message = FESTINA_MESSAGE_INIT;

    festina_listener_free(pair.listener);
    festina_endpoint_free(pair.server);
    festina_endpoint_free(pair.client);
    OK(festina_send(pair.near, "still here", 10, NULL, FESTINA_FOREVER, NULL));
    OK(festina_recv(pair.far, &message, 10000));
    OK(festina_shutdown(pair.near, 10000));
    festina_association_free(pair.near);
    /* A message outlives its association. */
    festina_association_free(pair.far);
    EXPECT(memcmp(message.data, "still here", 10) == 0);
    festina_message_free(&message);
}

static void addresses_come_and_go(void)
{
    festina_config *config = NULL;
    festina_endpoint *endpoint = NULL;
    char port[8], added[64], address[64];

    OK(festina_config_plain(NULL, &config));
    OK(festina_config_set_paths_max(config, 4));
    OK(festina_endpoint_client("127.0.0.1:0", config, &endpoint));
    EXPECT(festina_endpoint_local_address(endpoint, address, sizeof address) > 0);
    snprintf(port, sizeof port, "%s", strchr(address, ':') + 1);
    EXPECT(festina_endpoint_add_address(endpoint, address) == FESTINA_INVALID);
    EXPECT(festina_endpoint_remove_address(endpoint, address) == FESTINA_INVALID);
    OK(festina_endpoint_add_address(endpoint, "127.0.0.2:0"));
    OK(festina_endpoint_remove_address(endpoint, address));
    snprintf(added, sizeof added, "127.0.0.2:%s", port);
    EXPECT(festina_endpoint_local_address(endpoint, address, sizeof address) > 0 && strcmp(address, added) == 0);
    festina_endpoint_free(endpoint);
    festina_config_free(config);
}

static void an_endpoint_moves_to_another_socket(void)
{
    struct pair pair = connected(NULL);
    festina_message message = FESTINA_MESSAGE_INIT;
    char before[64], after[64];

    EXPECT(festina_endpoint_local_address(pair.server, before, sizeof before) > 0);
    EXPECT(festina_endpoint_rebind(pair.client, before) == FESTINA_SYSTEM && strstr(festina_last_error(), before) != NULL);
    EXPECT(festina_endpoint_rebind(pair.client, NULL) == FESTINA_INVALID);
    EXPECT(festina_endpoint_local_address(pair.client, before, sizeof before) > 0);
    OK(festina_endpoint_rebind(pair.client, "127.0.0.1:0"));
    EXPECT(festina_endpoint_local_address(pair.client, after, sizeof after) > 0 && strcmp(before, after) != 0);
    OK(festina_send(pair.near, "from there", 10, NULL, FESTINA_FOREVER, NULL));
    OK(festina_recv(pair.far, &message, 10000));
    festina_message_free(&message);
    OK(festina_send(pair.far, "and back", 8, NULL, FESTINA_FOREVER, NULL));
    OK(festina_recv(pair.near, &message, 10000));
    festina_message_free(&message);
    taken_apart(pair);
}

enum { THREADS = 3, MESSAGES = 2000 };

static void *sends(void *near)
{
    int i;
    for (i = 0; i < MESSAGES; i++)
        OK(festina_send(near, "from a thread", 13, NULL, FESTINA_FOREVER, NULL));
    return NULL;
}

static void *receives(void *far)
{
    festina_message message = FESTINA_MESSAGE_INIT;
    size_t count = 0;
    while (festina_recv(far, &message, FESTINA_FOREVER) == FESTINA_OK) {
        count++;
        festina_message_free(&message);
    }
    return (void *)count;
}

static void threads_share_an_association(void)
{
    struct pair pair = connected(NULL);
    pthread_t senders[THREADS], receivers[THREADS];
    size_t received = 0;
    int i;

    for (i = 0; i < THREADS; i++) {
        EXPECT(pthread_create(&receivers[i], NULL, receives, pair.far) == 0);
        EXPECT(pthread_create(&senders[i], NULL, sends, pair.near) == 0);
    }
    for (i = 0; i < THREADS; i++)
        EXPECT(pthread_join(senders[i], NULL) == 0);
    OK(festina_shutdown(pair.near, 60000));
    for (i = 0; i < THREADS; i++) {
        void *count;
        EXPECT(pthread_join(receivers[i], &count) == 0);
        received += (size_t)count;
    }
    EXPECT(received == THREADS * MESSAGES);
    taken_apart(pair);
}

/* Waits for a child, which exits with 0 if all its checks passed. */
static void child_is_content(pid_t child)
{
    int status;
    EXPECT(child > 0 && waitpid(child, &status, 0) == child);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* A call fails with this value because its handle was inherited; an error of an earlier call does not count. */
#define INHERITED_AS(failed, call)                                                                                 \
    do {                                                                                                           \
        EXPECT(festina_drained(NULL, FESTINA_NOW) == FESTINA_INVALID);                                             \
        EXPECT((call) == (failed) && strstr(festina_last_error(), "forked") != NULL);                              \
    } while (0)

#define INHERITED(call) INHERITED_AS(FESTINA_INVALID, call)

/* A client that waits for a decision. */
struct held {
    festina_listener *listener;
    festina_connecting *connecting;
    festina_request *request;
    festina_sessions *sessions;
};

static void a_child_can_do_nothing_with_what_it_inherits(struct pair pair, struct held held, const char *address)
{
    festina_listener *listener;
    festina_association *association;
    festina_message message = FESTINA_MESSAGE_INIT;
    festina_event event = FESTINA_EVENT_INIT;
    festina_stats stats = FESTINA_STATS_INIT;
    festina_connect_options options = FESTINA_CONNECT_OPTIONS_INIT;
    festina_connecting *connecting;
    festina_request *request;
    festina_ready ready;
    size_t count;
    char text[64];

    INHERITED(festina_send(pair.near, "from the child", 14, NULL, 10000, NULL));
    INHERITED(festina_recv(pair.far, &message, FESTINA_FOREVER));
    INHERITED(festina_next_event(pair.far, &event, FESTINA_FOREVER));
    INHERITED(festina_drained(pair.near, FESTINA_FOREVER));
    INHERITED(festina_shutdown(pair.near, FESTINA_FOREVER));
    INHERITED(festina_abort(pair.near, "from the child"));
    INHERITED(festina_get_stats(pair.near, &stats));
    INHERITED(festina_set_profile(pair.near, "rack"));
    INHERITED(festina_endpoint_listen(pair.server, 7, &listener));
    INHERITED(festina_listener_accept(pair.listener, FESTINA_FOREVER, &association));
    INHERITED(festina_endpoint_connect(pair.client, address, 0, 1000, &association));
    INHERITED(festina_endpoint_start_connect(pair.client, address, 0, 1000, &connecting));
    INHERITED(festina_endpoint_connect_with(pair.client, address, &options, 1000, &association));
    INHERITED(festina_endpoint_start_connect_with(pair.client, address, &options, 1000, &connecting));
    INHERITED(festina_connecting_finish(held.connecting, FESTINA_FOREVER, &association));
    INHERITED(festina_endpoint_listen_holding_requests(pair.server, 8, &listener));
    INHERITED(festina_listener_request(held.listener, FESTINA_FOREVER, &request));
    INHERITED(festina_request_accept(held.request));
    INHERITED(festina_request_refuse(held.request));
    INHERITED(festina_sessions_clear(held.sessions));
    INHERITED_AS(0, festina_sessions_forget(held.sessions, address));
    INHERITED_AS(0, festina_request_token(held.request, text, sizeof text));
    INHERITED_AS(0, festina_get_client_token(pair.far, text, sizeof text));
    INHERITED_AS(-1, festina_listener_request_fd(held.listener));
    INHERITED(festina_recv_early(pair.far, &message));
    INHERITED(festina_endpoint_ready(pair.server, &ready, 1, FESTINA_FOREVER, &count));
    INHERITED(festina_association_set_token(pair.near, 7));
    INHERITED(festina_endpoint_close(pair.server, FESTINA_FOREVER));
    EXPECT(festina_endpoint_fd(pair.server) == -1);
    EXPECT(festina_message_fd(pair.near) == -1 && festina_event_fd(pair.near) == -1);
    EXPECT(festina_listener_fd(pair.listener) == -1 && festina_get_profile(pair.near) == NULL);
    EXPECT(festina_get_close_reason(pair.near) == FESTINA_CLOSE_OTHER);
    EMPTY(festina_endpoint_local_address(pair.server, text, sizeof text));
    EMPTY(festina_get_remote_address(pair.near, text, sizeof text));
}

static void a_child_frees_what_it_inherits_and_the_parent_goes_on(void)
{
    struct pair pair = connected(NULL);
    festina_message message = FESTINA_MESSAGE_INIT, kept = FESTINA_MESSAGE_INIT;
    festina_event event = FESTINA_EVENT_INIT;
    festina_connect_options options = FESTINA_CONNECT_OPTIONS_INIT;
    festina_association *near, *far;
    struct held held;
    char address[64], token[8];
    int round, descriptor = festina_message_fd(pair.far);
    pid_t child;

    festina_endpoint_local_address(pair.server, address, sizeof address);
    options.token = "held";
    options.token_length = 4;
    options.peer_port = 6;
    OK(festina_endpoint_listen_holding_requests(pair.server, 6, &held.listener));
    OK(festina_endpoint_start_connect_with(pair.client, address, &options, 60000, &held.connecting));
    OK(festina_listener_request(held.listener, 20000, &held.request));
    OK(festina_sessions_new(2, &held.sessions));
    OK(festina_send(pair.near, "before", 6, NULL, FESTINA_FOREVER, NULL));
    OK(festina_recv(pair.far, &kept, 10000));
    for (round = 0; round < 4; round++) {
        child = fork();
        if (child == 0) {
            struct pair own;
            if (round != 1)
                a_child_can_do_nothing_with_what_it_inherits(pair, held, address);
            if (round == 0) {
                OK(festina_message_free(&kept));
                OK(festina_request_free(held.request));
                OK(festina_sessions_free(held.sessions));
                OK(festina_connecting_free(held.connecting));
                OK(festina_listener_free(held.listener));
                OK(festina_association_free(pair.near));
                OK(festina_association_free(pair.far));
                OK(festina_endpoint_free(pair.client));
                OK(festina_listener_free(pair.listener));
                OK(festina_endpoint_free(pair.server));
            }
            /* Its own endpoints work, and it can reach its parent with them. */
            if (round == 2) {
                own = connected(NULL);
                OK(festina_send(own.near, "own", 3, NULL, FESTINA_FOREVER, NULL));
                OK(festina_recv(own.far, &message, 10000));
                taken_apart(own);
            }
            if (round == 3)
                _exit(0);
            exit(0);
        }
        child_is_content(child);
        OK(festina_send(pair.near, "after", 5, NULL, FESTINA_FOREVER, NULL));
        EXPECT(readable(descriptor, 10000));
        OK(festina_recv(pair.far, &message, 10000));
        EXPECT(message.length == 5 && memcmp(message.data, "after", 5) == 0);
        festina_message_free(&message);
        OK(festina_drained(pair.near, 10000));
    }
    /* The client still waits, and the parent alone decides. */
    OK(festina_request_accept(held.request));
    OK(festina_connecting_finish(held.connecting, 20000, &near));
    OK(festina_listener_accept(held.listener, 20000, &far));
    EXPECT(festina_get_client_token(far, token, sizeof token) == 4 && memcmp(token, "held", 4) == 0);
    OK(festina_association_free(near));
    OK(festina_association_free(far));
    OK(festina_request_free(held.request));
    OK(festina_connecting_free(held.connecting));
    OK(festina_listener_free(held.listener));
    EXPECT(memcmp(kept.data, "before", 6) == 0);
    festina_message_free(&kept);
    while (festina_next_event(pair.near, &event, FESTINA_NOW) == FESTINA_OK)
        EXPECT(event.kind == FESTINA_EVENT_OTHER);
    EXPECT(festina_get_close_reason(pair.near) == FESTINA_CLOSE_NONE);
    taken_apart(pair);
}

struct records {
    int ups, downs, others;
};

/* Runs in threads of the library too: its calls do not overlap with those that read the records, after the end of the logs. */
static void note(void *context, int level, const char *text)
{
    struct records *records = context;
    static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

    pthread_mutex_lock(&one_at_a_time);
    if (level == FESTINA_LOG_INFO && strncmp(text, "association up association=", 27) == 0)
        records->ups++;
    else if (level == FESTINA_LOG_INFO && strncmp(text, "association down ", 17) == 0 && strchr(text, '\n') == NULL)
        records->downs++;
    else
        records->others++;
    pthread_mutex_unlock(&one_at_a_time);
}

static void logs_reach_the_function_of_the_program(void)
{
    struct records records = {0, 0, 0};
    struct pair pair;

    EXPECT(festina_set_log(note, &records, 6) == FESTINA_INVALID);
    EXPECT(festina_set_log(note, &records, -1) == FESTINA_INVALID);
    OK(festina_set_log(note, &records, FESTINA_LOG_WARN));
    taken_apart(connected(NULL));
    OK(festina_set_log(note, &records, FESTINA_LOG_INFO));
    EXPECT(records.ups == 0 && records.downs == 0);
    pair = connected(NULL);
    OK(festina_shutdown(pair.near, 20000));
    taken_apart(pair);
    OK(festina_set_log(NULL, NULL, FESTINA_LOG_INFO));
    EXPECT(records.ups == 2 && records.downs == 2 && records.others == 0);
    taken_apart(connected(NULL));
    EXPECT(records.ups == 2 && records.downs == 2);
}

int main(int count, char **arguments)
{
    KEEP(messages_arrive_with_what_was_said_of_them);
    KEEP(programs_that_know_smaller_structs_get_no_more_than_fits);
    KEEP(mistakes_are_told);
    KEEP(hosts_have_names_and_full_ones_say_so);
    KEEP(what_is_replaced_is_counted_by_whether_it_was_sent);
    KEEP(a_full_buffer_and_every_setting);
    KEEP(descriptors_are_readable_as_long_as_there_is_something);
    KEEP(fifty_handshakes_go_on_at_once_and_one_wait_is_for_all);
    KEEP(the_descriptor_of_an_endpoint_is_readable_only_while_something_is_ready);
    KEEP(many_messages_leave_with_one_call);
    KEEP(what_becomes_of_messages_is_told);
    KEEP(the_end_is_told_with_its_reason);
    KEEP(handles_are_freed_in_any_order);
    KEEP(addresses_come_and_go);
    KEEP(an_endpoint_moves_to_another_socket);
    KEEP(threads_share_an_association);
    KEEP(logs_reach_the_function_of_the_program);
    /* A child cannot free inherited objects, which valgrind reports as a leak. */
    if (count == 1 || strcmp(arguments[1], "under-valgrind") != 0) {
#ifdef __linux__
        /* Valgrind takes merged comparisons of the deadlines of several paths for uses of uninitialised memory. */
        KEEP(each_address_of_the_peer_is_a_path);
#endif
        KEEP(a_child_frees_what_it_inherits_and_the_parent_goes_on);
    }
    return 0;
}
