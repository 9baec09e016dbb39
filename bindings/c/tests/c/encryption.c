/*
 * Tests encryption as festina.h describes it.
 *
 *     encryption ROOT SERVER KEYLOG
 *
 * ROOT and SERVER are PEM files: a certificate authority, which the operating system trusts, and the chain and key of "server.test", which it
 * has signed. KEYLOG is a file that does not exist yet.
 */
#define _POSIX_C_SOURCE 200809L

#include "support.h"

static char *contents(const char *path)
{
    static char text[20000];
    FILE *file = fopen(path, "r");
    size_t length;

    EXPECT(file != NULL);
    length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = '\0';
    return text;
}

static festina_identity *signed_server(const char *path)
{
    festina_identity *identity;
    const char *pem = contents(path);
    OK(festina_identity_from_pem(pem, pem, &identity));
    return identity;
}

static festina_endpoint *client_of(festina_config *config)
{
    festina_endpoint *endpoint;
    OK(festina_endpoint_client("127.0.0.1:0", config, &endpoint));
    OK(festina_config_free(config));
    return endpoint;
}

static festina_endpoint *server_of(festina_config *config)
{
    festina_endpoint *endpoint;
    OK(festina_endpoint_server("127.0.0.1:0", config, &endpoint));
    OK(festina_config_free(config));
    return endpoint;
}

/* Settings of a client with this trust, which is freed. */
static festina_config *trusting(festina_trust *trust)
{
    festina_config *config;
    OK(festina_config_new(NULL, &config));
    OK(festina_config_set_server_trust(config, trust));
    OK(festina_trust_free(trust));
    return config;
}

/* Listens, and writes the endpoint's address. */
static festina_listener *listening(festina_endpoint *endpoint, char address[64])
{
    festina_listener *listener;
    OK(festina_endpoint_listen(endpoint, 0, &listener));
    EXPECT(festina_endpoint_local_address(endpoint, address, 64) == strlen(address));
    return listener;
}

static void closed(festina_endpoint *endpoint)
{
    OK(festina_endpoint_close(endpoint, 20000));
    OK(festina_endpoint_free(endpoint));
}

static void exchange(festina_association *near, festina_association *far)
{
    festina_message message = FESTINA_MESSAGE_INIT;
    OK(festina_send(near, "there", 5, NULL, FESTINA_FOREVER, NULL));
    OK(festina_recv(far, &message, 20000));
    EXPECT(message.length == 5 && memcmp(message.data, "there", 5) == 0);
    festina_message_free(&message);
    OK(festina_send(far, "and back", 8, NULL, FESTINA_FOREVER, NULL));
    OK(festina_recv(near, &message, 20000));
    EXPECT(message.length == 8 && memcmp(message.data, "and back", 8) == 0);
    festina_message_free(&message);
}

static void both_sides_know_each_other(void)
{
    festina_identity *client_identity, *same;
    festina_trust *clients;
    festina_config *config;
    festina_endpoint *server, *client;
    festina_listener *listener;
    festina_association *near, *far;
    char address[64], fingerprint[65], seen[65], pem[4000], protocol[32];

    OK(festina_identity_self_signed("client.test", &client_identity));
    EXPECT(festina_identity_fingerprint(client_identity, fingerprint, sizeof fingerprint) == 64);
    EXPECT(festina_identity_pem(client_identity, pem, sizeof pem) < sizeof pem);
    OK(festina_identity_from_pem(pem, pem, &same));
    OK(festina_identity_free(client_identity));
    OK(festina_trust_fingerprints(fingerprint, &clients));

    config = settings(NULL);
    OK(festina_config_set_client_trust(config, clients));
    OK(festina_config_set_alpn(config, "game/2 game/1"));
    server = server_of(config);
    config = settings(NULL);
    OK(festina_config_set_identity(config, same));
    OK(festina_config_set_alpn(config, "game/1"));
    client = client_of(config);
    OK(festina_identity_free(same));
    OK(festina_trust_free(clients));

    listener = listening(server, address);
    OK(festina_endpoint_connect(client, address, 0, 20000, &near));
    OK(festina_listener_accept(listener, 20000, &far));
    exchange(near, far);
    EXPECT(festina_is_encrypted(near) == 1 && festina_is_encrypted(far) == 1 && festina_is_resumed(near) == 0);
    EXPECT(festina_get_peer_fingerprint(near, seen, sizeof seen) == 64 && strcmp(seen, own_fingerprint) == 0);
    EXPECT(festina_get_peer_fingerprint(far, seen, sizeof seen) == 64 && strcmp(seen, fingerprint) == 0);
    EXPECT(festina_get_peer_pem(near, pem, sizeof pem) < sizeof pem);
    EXPECT(strstr(pem, "-----BEGIN CERTIFICATE-----") == pem && strstr(pem, "KEY") == NULL);
    EXPECT(festina_get_alpn(near, protocol, sizeof protocol) == 6 && strcmp(protocol, "game/1") == 0);
    EXPECT(festina_get_client_token(far, protocol, sizeof protocol) == 0);
    OK(festina_association_free(near));
    OK(festina_association_free(far));

    /* A client without a certificate is refused. */
    near = NULL;
    closed(client);
    OK(festina_trust_fingerprints(own_fingerprint, &clients));
    config = trusting(clients);
    OK(festina_config_set_alpn(config, "game/1"));
    client = client_of(config);
    EXPECT(festina_endpoint_connect(client, address, 0, 20000, &near) == FESTINA_REFUSED && near == NULL);
    EXPECT(strstr(festina_last_error(), "a certificate is required") != NULL);
    festina_listener_free(listener);
    closed(client);
    closed(server);
}

static void another_key_is_refused(void)
{
    festina_trust *trust;
    festina_endpoint *server = server_of(settings(NULL)), *client;
    festina_listener *listener;
    festina_association *none = NULL;
    char address[64], wrong[80];

    snprintf(wrong, sizeof wrong, "sha256:%s", own_fingerprint);
    wrong[7] = wrong[7] == '0' ? '1' : '0';
    OK(festina_trust_fingerprints(wrong, &trust));
    client = client_of(trusting(trust));
    listener = listening(server, address);
    EXPECT(festina_endpoint_connect(client, address, 0, 20000, &none) == FESTINA_UNTRUSTED && none == NULL);
    EXPECT(strstr(festina_last_error(), "its certificate is not trusted: its fingerprint is not a trusted one") != NULL);
    festina_listener_free(listener);
    closed(client);
    closed(server);
}

static void plain_and_encrypted_endpoints_say_what_the_other_speaks(void)
{
    festina_config *config;
    festina_endpoint *plain, *both, *encrypted = server_of(settings(NULL));
    festina_listener *listeners[2];
    festina_association *none = NULL;
    struct pair pair;
    char address[64], fingerprint[65];
    int i;

    OK(festina_config_plain(NULL, &config));
    pair = connected(config);
    exchange(pair.near, pair.far);
    EXPECT(festina_is_encrypted(pair.near) == 0);
    EXPECT(festina_get_peer_fingerprint(pair.near, fingerprint, sizeof fingerprint) == 0);
    taken_apart(pair);

    plain = server_of(config);
    listeners[0] = listening(plain, address);
    EXPECT(festina_endpoint_connect(encrypted, address, 0, 20000, &none) == FESTINA_PROTOCOL);
    EXPECT(strstr(festina_last_error(), "SCTP without encryption") != NULL);
    listeners[1] = listening(encrypted, address);
    EXPECT(festina_endpoint_connect(plain, address, 0, 20000, &none) == FESTINA_REFUSED);
    EXPECT(strstr(festina_last_error(), "speaks only encrypted associations") != NULL);
    EXPECT(none == NULL);
    closed(encrypted);

    /* A server that accepts both. */
    config = settings(NULL);
    OK(festina_config_set_plain_clients(config, 1));
    both = server_of(config);
    festina_listener_free(listeners[1]);
    OK(festina_endpoint_listen(both, 0, &listeners[1]));
    festina_endpoint_local_address(both, address, sizeof address);
    encrypted = server_of(settings(NULL));
    for (i = 0; i < 2; i++) {
        OK(festina_endpoint_connect(i ? encrypted : plain, address, 0, 20000, &pair.near));
        OK(festina_listener_accept(listeners[1], 20000, &pair.far));
        exchange(pair.near, pair.far);
        EXPECT(festina_is_encrypted(pair.far) == i && festina_is_encrypted(pair.near) == i);
        OK(festina_association_free(pair.near));
        OK(festina_association_free(pair.far));
    }
    festina_listener_free(listeners[0]);
    festina_listener_free(listeners[1]);
    closed(plain);
    closed(encrypted);
    closed(both);
}

static void the_token_is_seen_before_the_client_is_accepted(void)
{
    festina_endpoint *server = server_of(settings(NULL)), *client = client_of(settings(NULL));
    festina_listener *listener, *open;
    festina_connecting *good, *bad;
    festina_request *request;
    festina_association *near = NULL, *far;
    festina_connect_options options = FESTINA_CONNECT_OPTIONS_INIT;
    festina_ready ready[4];
    char address[64], text[64];
    unsigned char ticket[1025], token[1025];
    size_t count;

    memset(ticket, 7, sizeof ticket);
    OK(festina_endpoint_listen_holding_requests(server, 0, &listener));
    OK(festina_listener_set_token(listener, 77));
    EXPECT(festina_listener_request(listener, FESTINA_NOW, &request) == FESTINA_TIMEOUT);
    EXPECT(festina_listener_request_fd(listener) >= 0);
    while (festina_listener_accept(listener, FESTINA_NOW, &far) != FESTINA_TIMEOUT
           || festina_listener_request(listener, FESTINA_NOW, &request) != FESTINA_TIMEOUT)
        ;
    EXPECT(!readable(festina_listener_request_fd(listener), 0));
    while (festina_endpoint_ready(server, ready, 4, FESTINA_NOW, &count) == FESTINA_OK)
        ;
    festina_endpoint_local_address(server, address, sizeof address);

    options.server_name = "server.test";
    options.token = ticket;
    options.token_length = 1024;
    OK(festina_endpoint_start_connect_with(client, address, &options, 60000, &good));
    EXPECT(readable(festina_listener_request_fd(listener), 20000));
    OK(festina_endpoint_ready(server, ready, 4, 20000, &count));
    EXPECT(count == 1 && ready[0].kind == FESTINA_READY_REQUEST && ready[0].token == 77);
    OK(festina_listener_request(listener, 20000, &request));
    EXPECT(festina_request_token(request, token, sizeof token) == 1024 && memcmp(token, ticket, 1024) == 0);
    EXPECT(festina_request_token(request, NULL, 0) == 1024);
    EXPECT(festina_request_server_name(request, text, sizeof text) == 11 && strcmp(text, "server.test") == 0);
    EXPECT(festina_request_remote_address(request, text, sizeof text) > 10 && strncmp(text, "127.0.0.1:", 10) == 0);
    EXPECT(festina_request_alpn(request, text, sizeof text) == 0);
    /* Only during a flood must clients prove their address before they get here. */
    EXPECT(festina_request_is_address_proved(request) == 0);
    EXPECT(festina_connecting_finish(good, 300, &near) == FESTINA_TIMEOUT && near == NULL);
    OK(festina_request_accept(request));
    EXPECT(festina_request_refuse(request) == FESTINA_INVALID);
    OK(festina_request_free(request));
    OK(festina_connecting_finish(good, 60000, &near));
    OK(festina_listener_accept(listener, 20000, &far));
    memset(token, 0, sizeof token);
    EXPECT(festina_get_client_token(far, token, sizeof token) == 1024 && memcmp(token, ticket, 1024) == 0);
    exchange(near, far);
    OK(festina_association_free(near));
    OK(festina_association_free(far));
    OK(festina_connecting_free(good));

    near = NULL;
    options.token_length = 3;
    OK(festina_endpoint_start_connect_with(client, address, &options, 60000, &bad));
    OK(festina_listener_request(listener, 20000, &request));
    OK(festina_request_refuse(request));
    OK(festina_request_free(request));
    EXPECT(festina_connecting_finish(bad, 60000, &near) == FESTINA_REFUSED && near == NULL);
    EXPECT(strstr(festina_last_error(), "its application refused") != NULL);
    OK(festina_connecting_free(bad));

    /* Undecided clients are not answered. */
    OK(festina_endpoint_start_connect_with(client, address, &options, 300, &bad));
    OK(festina_listener_request(listener, 20000, &request));
    OK(festina_request_free(request));
    EXPECT(festina_connecting_finish(bad, 60000, &near) == FESTINA_UNREACHABLE && near == NULL);
    OK(festina_connecting_free(bad));

    options.token_length = 1025;
    EXPECT(festina_endpoint_connect_with(client, address, &options, 60000, &near) == FESTINA_INVALID);
    EXPECT(strstr(festina_last_error(), "token has 1025 bytes, but at most 1024 are allowed") != NULL);
    options.token = NULL;
    options.token_length = 3;
    EXPECT(festina_endpoint_connect_with(client, address, &options, 60000, &near) == FESTINA_INVALID);
    EXPECT(strcmp(festina_last_error(), "token is NULL") == 0);
    options.token_length = 0;
    options.early_messages_count = 1;
    EXPECT(festina_endpoint_connect_with(client, address, &options, 60000, &near) == FESTINA_INVALID);
    EXPECT(strcmp(festina_last_error(), "early_messages is NULL") == 0 && near == NULL);
    OK(festina_endpoint_listen(server, 7, &open));
    EXPECT(festina_listener_request(open, FESTINA_NOW, &request) == FESTINA_INVALID);
    EXPECT(festina_listener_request_fd(open) == -1);
    festina_listener_free(open);
    festina_listener_free(listener);
    closed(client);
    closed(server);
}

static void a_resumed_client_sends_with_its_first_packet(void)
{
    festina_config *config = settings(NULL);
    festina_config *of_client = settings(NULL);
    festina_endpoint *server, *client;
    festina_sessions *sessions;
    festina_listener *listener;
    festina_association *near, *far;
    festina_message message = FESTINA_MESSAGE_INIT;
    festina_connect_options options = FESTINA_CONNECT_OPTIONS_INIT;
    festina_send_options on_stream = FESTINA_SEND_OPTIONS_INIT;
    festina_outgoing early;
    char address[64];
    int resumed = 0, tries, again;

    OK(festina_sessions_new(4, &sessions));
    OK(festina_config_set_sessions(of_client, sessions));
    client = client_of(of_client);
    OK(festina_config_set_early_messages(config, 1));
    server = server_of(config);
    listener = listening(server, address);
    on_stream.stream = 3;
    early.data = "early";
    early.length = 5;
    early.options = &on_stream;
    options.early_messages = &early;
    options.early_messages_count = 1;
    for (tries = 0; tries < 2; tries++) {
        near = NULL;
        on_stream.flags = tries == 0 ? FESTINA_CONFIRM : FESTINA_REPLACING;
        EXPECT(festina_endpoint_connect_with(client, address, &options, 60000, &near) == FESTINA_INVALID && near == NULL);
        EXPECT(strcmp(festina_last_error(), "early_messages: FESTINA_CONFIRM and FESTINA_REPLACING are not for early messages") == 0);
    }
    on_stream.flags = 0;
    for (tries = 0; !resumed; tries++) {
        EXPECT(tries < 20);
        OK(festina_endpoint_connect_with(client, address, &options, 60000, &near));
        OK(festina_listener_accept(listener, 20000, &far));
        resumed = festina_is_resumed(far);
        EXPECT(festina_is_resumed(near) == resumed);
        if (resumed)
            OK(festina_recv_early(far, &message));
        else
            OK(festina_recv(far, &message, 20000));
        EXPECT(message.length == 5 && memcmp(message.data, "early", 5) == 0 && message.stream == 3);
        festina_message_free(&message);
        EXPECT(festina_recv_early(far, &message) == FESTINA_TIMEOUT);
        /* The session's ticket arrives before the answer. */
        exchange(near, far);
        OK(festina_association_free(near));
        OK(festina_association_free(far));
    }
    /* Sessions outlive endpoints, until they are forgotten. */
    for (again = 1; again >= 0; again--) {
        closed(client);
        of_client = settings(NULL);
        OK(festina_config_set_sessions(of_client, sessions));
        client = client_of(of_client);
        OK(festina_endpoint_connect_with(client, address, NULL, 60000, &near));
        EXPECT(festina_is_resumed(near) == again);
        OK(festina_association_free(near));
        EXPECT(festina_sessions_forget(sessions, "127.0.0.1:1") == 0);
        if (again)
            EXPECT(festina_sessions_forget(sessions, address) == 1);
    }
    OK(festina_sessions_clear(sessions));
    OK(festina_sessions_free(sessions));
    festina_listener_free(listener);
    closed(client);
    closed(server);
}

static void raw_public_keys(void)
{
    festina_identity *identity, *same;
    festina_trust *trust;
    festina_config *config, *of_client;
    festina_endpoint *server, *client;
    festina_listener *listener;
    festina_association *near = NULL;
    char address[64], pem[512], fingerprint[65], again[65];

    OK(festina_identity_raw_key(&identity));
    EXPECT(festina_identity_pem(identity, pem, sizeof pem) < sizeof pem && strstr(pem, "CERTIFICATE") == NULL);
    OK(festina_identity_raw_key_from_pem(pem, &same));
    EXPECT(festina_identity_fingerprint(identity, fingerprint, sizeof fingerprint) == 64);
    EXPECT(festina_identity_fingerprint(same, again, sizeof again) == 64 && strcmp(again, fingerprint) == 0);
    OK(festina_identity_free(same));
    EXPECT(festina_identity_raw_key_from_pem("no PEM", &same) == FESTINA_INVALID);
    EXPECT(festina_identity_raw_key(NULL) == FESTINA_INVALID);
    EXPECT(festina_trust_raw_keys("", &trust) == FESTINA_INVALID);

    config = settings(NULL);
    OK(festina_config_set_identity(config, identity));
    server = server_of(config);
    OK(festina_endpoint_listen(server, 0, &listener));
    festina_endpoint_local_address(server, address, sizeof address);
    of_client = settings(NULL);
    OK(festina_trust_raw_keys(fingerprint, &trust));
    OK(festina_config_set_server_trust(of_client, trust));
    OK(festina_trust_free(trust));
    client = client_of(of_client);
    OK(festina_endpoint_connect(client, address, 0, 60000, &near));
    EXPECT(festina_get_peer_fingerprint(near, again, sizeof again) == 64 && strcmp(again, fingerprint) == 0);
    EXPECT(festina_get_peer_pem(near, pem, sizeof pem) < sizeof pem && strstr(pem, "BEGIN PUBLIC KEY") != NULL);
    OK(festina_association_free(near));
    closed(client);
    /* A client that expects a certificate. */
    near = NULL;
    of_client = settings(NULL);
    OK(festina_trust_fingerprints(fingerprint, &trust));
    OK(festina_config_set_server_trust(of_client, trust));
    OK(festina_trust_free(trust));
    client = client_of(of_client);
    EXPECT(festina_endpoint_connect(client, address, 0, 60000, &near) != FESTINA_OK && near == NULL);
    EXPECT(strstr(festina_last_error(), "kind of key") != NULL);
    closed(client);
    festina_listener_free(listener);
    closed(server);
    OK(festina_identity_free(identity));
}

static void roots_and_names(const char *root_path, const char *server_path)
{
    festina_identity *identity = signed_server(server_path);
    festina_trust *trust;
    festina_config *config;
    festina_endpoint *server, *clients[3];
    festina_listener *listener;
    festina_association *near = NULL;
    festina_connect_options options = FESTINA_CONNECT_OPTIONS_INIT;
    char address[64];
    int i;

    OK(festina_config_new(NULL, &config));
    OK(festina_config_set_identity(config, identity));
    OK(festina_identity_free(identity));
    server = server_of(config);
    listener = listening(server, address);

    /* The roots of the operating system are the default. */
    OK(festina_endpoint_client("127.0.0.1:0", NULL, &clients[0]));
    OK(festina_trust_platform_roots(&trust));
    clients[1] = client_of(trusting(trust));
    OK(festina_trust_roots_from_pem(contents(root_path), &trust));
    clients[2] = client_of(trusting(trust));
    for (i = 0; i < 3; i++) {
        options.server_name = "server.test";
        OK(festina_endpoint_connect_with(clients[i], address, &options, 20000, &near));
        OK(festina_association_free(near));
        near = NULL;
        options.server_name = "other.test";
        EXPECT(festina_endpoint_connect_with(clients[i], address, &options, 20000, &near) == FESTINA_UNTRUSTED);
        EXPECT(strstr(festina_last_error(), "other.test") != NULL);
        /* By default the name is the host, here an address. */
        EXPECT(festina_endpoint_connect_with(clients[i], address, NULL, 20000, &near) == FESTINA_UNTRUSTED);
        options.server_name = "no name";
        EXPECT(festina_endpoint_connect_with(clients[i], address, &options, 20000, &near) == FESTINA_INVALID);
        EXPECT(near == NULL);
        closed(clients[i]);
    }
    festina_listener_free(listener);
    closed(server);
}

static void keys_are_logged_on_demand_only(const char *key_log)
{
    festina_config *config;
    struct pair pair;
    FILE *file;

    EXPECT(setenv("SSLKEYLOGFILE", key_log, 1) == 0);
    pair = connected(NULL);
    taken_apart(pair);
    EXPECT(fopen(key_log, "r") == NULL);
    config = settings(NULL);
    OK(festina_config_set_key_log_from_env(config, 1));
    pair = connected(config);
    OK(festina_config_free(config));
    taken_apart(pair);
    file = fopen(key_log, "r");
    EXPECT(file != NULL);
    fclose(file);
    EXPECT(strstr(contents(key_log), "CLIENT_TRAFFIC_SECRET_0 ") != NULL);
    EXPECT(unsetenv("SSLKEYLOGFILE") == 0);
}

static void mistakes_are_reported(void)
{
    festina_config *config, *plain;
    festina_identity *identity = NULL;
    festina_trust *trust = NULL;
    festina_endpoint *endpoint = NULL;
    festina_listener *listener = NULL;
    festina_request *request = NULL;
    char text[8];

    EXPECT(festina_identity_self_signed(NULL, &identity) == FESTINA_INVALID);
    EXPECT(festina_identity_self_signed("a.test", NULL) == FESTINA_INVALID);
    EXPECT(festina_identity_from_pem("no", "PEM", &identity) == FESTINA_INVALID);
    EXPECT(strstr(festina_last_error(), "private key") != NULL);
    EXPECT(festina_identity_from_pem(NULL, "", &identity) == FESTINA_INVALID && identity == NULL);
    EXPECT(festina_trust_roots_from_pem("\xff", &trust) == FESTINA_INVALID);
    EXPECT(festina_trust_fingerprints("", &trust) == FESTINA_INVALID);
    EXPECT(festina_trust_fingerprints("abc", &trust) == FESTINA_INVALID && trust == NULL);
    EXPECT(strstr(festina_last_error(), "64 hexadecimal digits") != NULL);
    EMPTY(festina_identity_fingerprint(NULL, text, sizeof text));
    EMPTY(festina_identity_pem(NULL, text, sizeof text));
    EMPTY(festina_get_peer_fingerprint(NULL, text, sizeof text));
    EMPTY(festina_get_peer_pem(NULL, text, sizeof text));
    EMPTY(festina_get_alpn(NULL, text, sizeof text));
    EMPTY(festina_request_remote_address(NULL, text, sizeof text));
    EMPTY(festina_request_server_name(NULL, text, sizeof text));
    EMPTY(festina_request_alpn(NULL, text, sizeof text));
    OK(festina_identity_free(NULL));
    OK(festina_trust_free(NULL));
    EXPECT(festina_sessions_new(1, NULL) == FESTINA_INVALID && festina_sessions_clear(NULL) == FESTINA_INVALID);
    EXPECT(festina_sessions_forget(NULL, "a.test:1") == 0);
    OK(festina_sessions_free(NULL));
    OK(festina_request_free(NULL));
    EXPECT(festina_request_accept(NULL) == FESTINA_INVALID && festina_request_token(NULL, text, 8) == 0);
    EXPECT(festina_is_encrypted(NULL) == 0 && festina_get_peer_pem(NULL, NULL, 0) == 0);

    config = settings(NULL);
    EXPECT(festina_config_set_identity(config, NULL) == FESTINA_INVALID);
    EXPECT(festina_config_set_server_trust(NULL, trust) == FESTINA_INVALID);
    EXPECT(festina_config_set_alpn(config, NULL) == FESTINA_INVALID);
    EXPECT(festina_config_set_sessions(config, NULL) == FESTINA_INVALID);
    OK(festina_trust_fingerprints(own_fingerprint, &trust));
    OK(festina_config_set_client_trust(config, trust));
    OK(festina_config_set_early_messages(config, 1));
    EXPECT(festina_endpoint_server("127.0.0.1:0", config, &endpoint) == FESTINA_INVALID && endpoint == NULL);
    EXPECT(strstr(festina_last_error(), "early messages") != NULL);
    OK(festina_config_free(config));

    OK(festina_config_plain(NULL, &plain));
    EXPECT(festina_config_set_server_trust(plain, trust) == FESTINA_INVALID);
    EXPECT(strstr(festina_last_error(), "plain SCTP") != NULL);
    OK(festina_config_free(plain));
    OK(festina_trust_free(trust));

    /* By default there is no identity. */
    EXPECT(festina_endpoint_server("127.0.0.1:0", NULL, &endpoint) == FESTINA_INVALID && endpoint == NULL);
    EXPECT(strstr(festina_last_error(), "identity") != NULL);
    OK(festina_endpoint_client("127.0.0.1:0", NULL, &endpoint));
    EXPECT(festina_endpoint_listen(endpoint, 0, &listener) == FESTINA_INVALID && listener == NULL);
    EXPECT(strstr(festina_last_error(), "festina_endpoint_server") != NULL);
    EXPECT(festina_listener_request(NULL, FESTINA_NOW, &request) == FESTINA_INVALID);
    closed(endpoint);
}

int main(int count, char **arguments)
{
    if (count != 4) {
        fprintf(stderr, "usage: %s ROOT SERVER KEYLOG\n", arguments[0]);
        return 2;
    }
    KEEP(both_sides_know_each_other);
    KEEP(another_key_is_refused);
    KEEP(plain_and_encrypted_endpoints_say_what_the_other_speaks);
    KEEP(the_token_is_seen_before_the_client_is_accepted);
    KEEP(a_resumed_client_sends_with_its_first_packet);
    KEEP(raw_public_keys);
    KEEP(mistakes_are_reported);
    roots_and_names(arguments[1], arguments[2]);
    puts("roots_and_names");
    keys_are_logged_on_demand_only(arguments[3]);
    puts("keys_are_logged_on_demand_only");
    return 0;
}
